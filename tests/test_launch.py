"""Which of several processes speaks and writes, by what torchrun and Slurm say."""

import subprocess
import sys

import pytest

from transformable.cli.entry import main
from transformable.launch import is_first_process, torchrun_processes


def under_torchrun(monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    """As on the second of two machines with two processes each, unless said otherwise."""
    names = {"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2"}
    for name, value in {"TORCHELASTIC_RUN_ID": "a", **names, **environment}.items():
        monkeypatch.setenv(name, value)


def test_one_of_all_processes_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_first_process()
    assert torchrun_processes() == (1, 1)
    with monkeypatch.context() as beside:  # started by the first one, by --devices
        beside.setenv("LOCAL_RANK", "1")
        assert not is_first_process()
    under_torchrun(monkeypatch)
    assert torchrun_processes() == (4, 2)
    assert not is_first_process()  # though it is the first of its machine
    monkeypatch.setenv("RANK", "0")
    assert is_first_process()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--devices=2"], "--devices 2, but torchrun has started 4: leave out --devices"),
        (["evaluate", "run"], "tas evaluate works in one process, not in 4: leave out torchrun"),
        (["search", "--dry-run"], "a dry run tries one device: leave out --devices and torchrun"),
    ],
)
def test_what_torchrun_cannot_be_used_for(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    under_torchrun(monkeypatch, RANK="0")
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"tas: error: {words}\n"
    # the others are silent
    monkeypatch.setenv("RANK", "2")
    assert main(arguments) == 2
    assert capsys.readouterr().err == ""


def test_tasks_of_slurm_that_do_not_know_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "8")
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert main(["train"]) == 2
    assert "srun has started 8 tasks that are not connected" in capsys.readouterr().err


def test_an_interruption_while_torch_is_imported_is_one_line() -> None:
    """What torch has imported so far is not touched again."""
    program = """
import sys, types
from transformable.cli import entry
def interrupted(arguments):
    sys.modules["torch"] = sys.modules["torch.distributed"] = types.ModuleType("half imported")
    raise KeyboardInterrupt
entry._run = interrupted
sys.exit(entry.main(["train"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "tas: interrupted\n")
