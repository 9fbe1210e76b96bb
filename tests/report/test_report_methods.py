"""The report of a run of any method, of a trial of a comparison, and of an older version."""

import json
from pathlib import Path
from typing import Any

from support.html_tree import Node, parse
from support.made_up_run import (
    result_record,
    training_rows,
    write_rows,
    write_run,
    write_run_without_search,
)
from transformable.report import write_report

NOTES = {"criterion": "<geometric median>", "episodes": 40, "judged_by": [0.5, 0.25]}


def read(folder: Path) -> Node:
    return parse(write_report(folder).read_text(encoding="utf-8"))


def fpgm(folder: Path, **changes: Any) -> Node:
    return read(write_run_without_search(folder, "fpgm", notes=NOTES, **changes))


def test_the_method_is_named(tmp_path: Path) -> None:
    page = fpgm(tmp_path / "run")
    assert page.all("p", "over")[0].text == "Pruned by fpgm"
    assert page.all("title")[0].text == "resnet14 on digits, pruned by fpgm"
    assert "architecture search" not in page.text
    pairs = [(d.all("dt")[0].text, d.all("dd")[0].text) for d in page.by_id("setup").all("div")]
    assert ("method", "fpgm") in pairs
    summary = (tmp_path / "run" / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("# resnet14 on digits, pruned by fpgm\n")


def test_without_distributions_there_are_the_notes(tmp_path: Path) -> None:
    page = fpgm(tmp_path / "run")
    part = page.by_id("search")
    assert part.all("h2")[0].text == "Method"
    assert [link.text for link in page.all("nav")[0].all("a")] == [
        "Network",
        "Method",
        "Training",
        "Speed",
        "Layers",
        "Setup",
    ]
    pairs = [(row.all("dt")[0].text, row.all("dd")[0].text) for row in part.all("div")]
    assert pairs == [
        ("criterion", "<geometric median>"),
        ("episodes", "40"),
        ("judged_by", "[0.5, 0.25]"),
    ]
    assert not part.all("svg")
    assert not page.all("script")
    # everything else is as for any run
    assert len(page.all("section", "card")) == 5
    assert len(page.all("svg")) == 4


def test_a_method_without_notes(tmp_path: Path) -> None:
    part = read(write_run_without_search(tmp_path / "run", "a.py:<own>")).by_id("search")
    assert "The shape was chosen by a.py:<own>," in part.text
    assert not part.all("dl")


def test_the_training_of_a_method_is_not_a_search(tmp_path: Path) -> None:
    folder = write_run_without_search(tmp_path / "run", "sfp", notes=NOTES)
    write_rows(folder / "search" / "metrics.csv", training_rows(5, 0.9))
    part = read(folder).by_id("search")
    assert part.all("h2")[0].text == "Method"
    assert not part.all("figure")


def test_the_notes_of_tas_are_a_sentence(tmp_path: Path) -> None:
    older = read(write_run(tmp_path / "older"))
    result = result_record()
    notes = {name: result.pop(name) for name in ("derived_by", "given_up")}
    folder = write_run(tmp_path / "run")
    (folder / "result.json").write_text(json.dumps({**result, "method": "tas", "notes": notes}))
    page = read(folder)
    assert page.all("p", "over")[0].text == "Pruned by transformable architecture search"
    assert "gave up 3.18 nats" in page.by_id("search").all("p")[0].text
    assert page.text == older.text


def test_without_a_note_on_deriving_its_line_is_left_out(tmp_path: Path) -> None:
    result = result_record()
    del result["derived_by"], result["given_up"]
    folder = write_run(tmp_path / "run")
    (folder / "result.json").write_text(json.dumps(result))
    part = read(folder).by_id("search")
    assert "nats" not in part.text
    assert part.all("h2")[0].text == "Search"
    assert part.by_id("map").all("rect", "cell")


def test_a_cost_that_was_measured(tmp_path: Path) -> None:
    for measured in (False, True):
        page = fpgm(tmp_path / f"{measured}", measured=measured)
        note = page.all("section", "card")[1].all("p", "note")[0].text
        assert note.endswith("for one image, the mean over images.") == measured
        assert page.all("p", "lead")[0].text.endswith("depends on them.") == measured
        assert bool(page.by_id("layers").all("p", "note")) == measured


def test_a_trial_of_a_comparison(tmp_path: Path) -> None:
    """All trials share one teacher, which is outside of the folder; nobody typed a command."""
    folder = tmp_path / "comparison" / "fpgm-0.5-0"
    write_run_without_search(
        folder, "fpgm", command="", teacher="../teacher", seconds={"search": 1}
    )
    page = read(folder)
    assert "The teacher was given (../teacher), so only the student" in page.by_id("training").text
    assert [len(svg.all("polyline")) for svg in page.by_id("training").all("svg")] == [1, 1, 1]
    assert not page.all("pre")
