"""A lock file that was removed while somebody waited for it locks nothing."""

import threading
from pathlib import Path

import pytest

from transformable.runs.lock import lock_folder
from transformable.runs.run_folder import Run


def test_the_one_that_waits_gets_a_lock_that_others_see(tmp_path: Path) -> None:
    first = Run.open(tmp_path / "run", {})
    got: list[Run] = []
    waiting = threading.Thread(
        target=lambda: got.append(Run.open(tmp_path / "run", {}, wait=True)), daemon=True
    )
    waiting.start()
    waiting.join(0.3)
    assert not got
    first.close()  # nothing was started, so the folder is removed
    waiting.join(10)
    assert len(got) == 1
    with pytest.raises(ValueError, match="in use by another process"):
        Run.open(tmp_path / "run", {})
    got[0].close()
    assert not (tmp_path / "run").exists()


def test_a_folder_that_takes_no_lock_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot write to run folder /proc/self: No such file"):
        lock_folder(Path("/proc/self"), wait=False)


def test_what_a_killed_process_has_half_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".config.toml.part").write_text("form")
    with Run.open(tmp_path, {}) as run:
        run.start()
        assert not (tmp_path / ".config.toml.part").exists()
