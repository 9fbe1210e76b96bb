"""Weights from the folder of a run, and what is said of a folder that has none."""

from pathlib import Path
from typing import Any

import pytest

from transformable.cli.given_weights import unpruned_folder
from transformable.cli.options import Distill, Train
from transformable.runs.run_folder import Run


def make_run(folder: Path, *files: str, **settings: Any) -> Path:
    with Run.open(folder, settings) as run:
        run.start(dict.fromkeys(files, "{}"))
    return folder


def test_the_folder_inside_that_of_a_job_or_a_search(tmp_path: Path) -> None:
    for kind, inner in (("prune", "teacher"), ("search", "pretrained")):
        whole = make_run(tmp_path / kind, command=kind, weights="a.pth", new_head=True)
        part = make_run(whole / inner, "model.safetensors")
        assert unpruned_folder(whole, Distill()) == part


def test_a_search_names_the_weights_that_it_was_given(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "s", "result.json", command="search", weights="nets/mobile.pth")
    told = r"s is a search that took its weights from nets/mobile.pth .*; use {} nets/mobile.pth$"
    for options, option in ((Distill(), "--teacher"), (Train(), "--weights")):
        with pytest.raises(ValueError, match=told.format(option)):
            unpruned_folder(folder, options)


def test_only_what_is_not_finished_can_be_continued(tmp_path: Path) -> None:
    begun = make_run(tmp_path / "begun", command="train")
    with pytest.raises(ValueError, match="begun has no trained network; run its command again"):
        unpruned_folder(begun, Distill())
    done = make_run(tmp_path / "done", "result.json", command="search")
    with pytest.raises(ValueError, match="done is finished and has no trained, unpruned network"):
        unpruned_folder(done, Distill())
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"none is not a run folder: it has no config.toml; give"):
        unpruned_folder(tmp_path / "none", Distill())
