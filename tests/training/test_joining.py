"""Processes that are started again agree on a word, whatever earlier ones have left behind."""

import subprocess
import sys
import threading

import pytest
from torch._C._distributed_c10d import HashStore

from transformable.training.joining import agree_on_word


def words(store: HashStore, world: int) -> list[str]:
    """What the processes of one life agree on."""
    found = [""] * world

    def join(rank: int) -> None:
        found[rank] = agree_on_word(store, rank, world, seconds=20.0)

    threads = [threading.Thread(target=join, args=(rank,), daemon=True) for rank in range(world)]
    for thread in reversed(threads):
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def test_each_life_has_a_word_of_its_own() -> None:
    store = HashStore()
    first = words(store, 3)
    store.set("word of 2", "one that died before it was answered")
    lives = [first, words(store, 3), words(store, 2)]
    assert all(len({*life}) == 1 and life[0] for life in lives)
    assert len({life[0] for life in lives}) == 3


def test_a_process_that_does_not_start_is_named() -> None:
    store = HashStore()
    store.set("word of 1", "one of an earlier life")
    with pytest.raises(ValueError, match="process 1 of this job did not start"):
        agree_on_word(store, 0, 2, seconds=0.1)


ENDS = """
import atexit
import torch.distributed
from transformable.training.session import Session

# called last, since it is registered first
atexit.register(lambda: print(torch.distributed.is_initialized()))
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
for seed in range(2):
    Session(seed=seed)
"""


def test_a_process_leaves_the_others_before_it_ends() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
