"""What trials do in tests; in a module of its own, so that their processes can import it."""

import os
import signal
import time
from pathlib import Path

from transformable.comparing.processes import run_trials
from transformable.comparing.trials import Trial


def mixed(options: None, trial: Trial, folder: Path) -> None:
    """Some go well, one fails, one is killed."""
    if trial.method == "pfec":
        raise RuntimeError("no  filters\nleft")
    if trial.method == "fpgm":
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / "done").write_text(f"{trial.seed}")


def meeting(options: None, trial: Trial, folder: Path) -> None:
    """Each waits for the other, which is there only if they run side by side."""
    (folder / "here").touch()
    end = time.monotonic() + 60
    while len(list(folder.parent.glob("*/here"))) < 2:
        if time.monotonic() > end:
            raise RuntimeError("alone")
        time.sleep(0.01)


def meeting_another(option: str, trial: Trial, folder: Path) -> None:
    """The same; each writes down the option that it was given."""
    (folder / "option").write_text(option)
    meeting(None, trial, folder)


def endless(options: None, trial: Trial, folder: Path) -> None:
    """Until it is told to stop."""
    try:
        (folder / "here").touch()
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        (folder / "saved").touch()
        raise


def parent(folder: str) -> None:
    """Looks after an endless trial."""
    left = iter([Trial(method="pfec", budget="0.5", seed=0)])
    run_trials(
        endless,
        [None],
        Path(folder),
        lambda: next(left, None),
        lambda trial, reason: None,
        lambda: None,
    )
