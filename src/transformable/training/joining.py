"""Connect the processes that torchrun has started, also after a restart, and end them in order.

All restarts of a job share the key-value store of torchrun, and what an earlier start has left
there would send a process to dead addresses. So the processes of a start agree on a new prefix
first, and keep everything else under it. torchrun's own count of restarts does not serve: each
machine has its own.
"""

import atexit
import os
import secrets
import time

import torch.distributed
from lightning_fabric import Fabric
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

__all__ = ["agree_on_word", "join_processes", "leave_at_exit"]

POLL_SECONDS = 0.02


def join_processes(fabric: Fabric) -> None:
    """Join the processes that torchrun has started, then launch the fabric, which uses them."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if world > 1 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        shared = TCPStore(address, port, world, is_master=False)
        word = agree_on_word(shared, rank, world)
        fabric.accelerator.setup_device(fabric.device)
        backend = "nccl" if fabric.device.type == "cuda" else "gloo"
        own = PrefixStore(word, shared)
        torch.distributed.init_process_group(backend, store=own, rank=rank, world_size=world)
    fabric.launch()


def leave_at_exit() -> None:
    """Let this process leave the others when it ends: the threads that connect them may otherwise
    still run when the interpreter ends, which aborts it."""
    if torch.distributed.is_initialized():
        atexit.unregister(_leave)  # once is enough
        atexit.register(_leave)


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def agree_on_word(store: Store, rank: int, world: int, seconds: float = 600.0) -> str:
    """A new prefix that all running processes share, whatever others have left in the store.

    Each process writes a random word. The first process answers all words, those of dead processes
    too, with the common one, until all others have confirmed that they have it.
    """
    own = secrets.token_hex(8)
    if rank:
        store.set(f"word of {rank}", own)
        store.wait([f"answer to {own}"])
        common = store.get(f"answer to {own}").decode()
        store.set(f"{common} is known to {rank}", "")
        return common
    missing, end = set(range(1, world)), time.monotonic() + seconds
    while missing:
        for other in sorted(missing):
            if store.check([f"word of {other}"]):
                store.set(f"answer to {store.get(f'word of {other}').decode()}", own)
            if store.check([f"{own} is known to {other}"]):
                missing.remove(other)
        if time.monotonic() > end:
            raise ValueError(
                f"process {', '.join(map(str, missing))} of this job did not start; see what it "
                "says, and run the same command again"
            )
        time.sleep(POLL_SECONDS)
    return own
