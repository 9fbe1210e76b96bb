"""Which of several processes this one is, according to its environment variables.

torchrun sets them for all processes that it starts, on one machine or several; lightning-fabric for
those that ``--devices N`` starts besides the first. The command line reads them without torch.
"""

import os

__all__ = ["is_first_process", "is_under_torchrun", "refuse_lone_tasks", "torchrun_processes"]


def is_under_torchrun() -> bool:
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def torchrun_processes() -> tuple[int, int]:
    """How many processes torchrun has started in all, and on how many machines."""
    if not is_under_torchrun():
        return 1, 1
    return int(os.environ["WORLD_SIZE"]), int(os.environ["GROUP_WORLD_SIZE"])


def is_first_process() -> bool:
    """Whether this process has the run folder and prints; only one process does."""
    if is_under_torchrun():
        return os.environ["RANK"] == "0"
    return os.environ.get("LOCAL_RANK", os.environ.get("SLURM_PROCID", "0")) == "0"


def refuse_lone_tasks() -> None:
    """Refuse tasks of srun that would all do the same work, because nothing connects them."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    if tasks != "1" and not is_under_torchrun():
        raise ValueError(
            f"srun has started {tasks} tasks that are not connected; let it start one "
            "torchrun on each machine (srun --ntasks-per-node=1 torchrun ...)"
        )
