"""tas reproduce on a small network: the plan, an interruption in the middle, the files."""

import csv
import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from support.command_process import start, wait_for
from support.tiny_prune import prepare
from transformable.cli.entry import main
from transformable.comparing.trials import Trial
from transformable.runs.status import run_status

OPTIONS = ("--scale=smoke", "--models=net.py:net", "--data=npz:tiny.npz", "--photos=npz:tiny.npz")
STUDY = "net.py-net-npz-tiny.npz"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(prepare(tmp_path))
    return tmp_path


def trial(method: str) -> str:
    return Trial(method=method, budget="0.5", seed=0).name


def result_of(*place: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("r", STUDY, *place, "result.json").read_text())
    return found


def lines_of(table: str) -> dict[str, dict[str, str]]:
    with Path("r", f"{table}.csv").open() as file:
        return {line["name"]: line for line in csv.DictReader(file)}


def test_the_plan_has_everything_once_and_leaves_no_trace(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "all", *OPTIONS, "--seeds=2", "--dry-run", "--json", "--out=r"]) == 0
    found = json.loads(capsys.readouterr().out)
    runs = {(work["study"], work["what"]): work["runs"] for work in found["plan"]}
    assert runs == {
        (STUDY, "unpruned"): 1,
        **{(STUDY, f"{m} to 0.615: none, init, kd"): 2 for m in ("uniform", "random", "tas")},
        **{(STUDY, f"{m} to 0.5: kd"): 2 for m in ("tas-depth", "tas-width", "tas")},
        **{(f"{STUDY}-select{i}", "tas to 0.56: kd"): 2 for i in (1, 2, 3, 5, 8)},
        (STUDY, "figure 4: searches"): 8,
    }
    assert len(runs) == len(found["plan"])
    assert all(work["done"] == 0 for work in found["plan"])
    # one network, one dataset: one pace
    assert len({work["pace"]["seconds"] for work in found["plan"]}) == 1
    assert found["seconds"] == pytest.approx(sum(work["seconds"] for work in found["plan"]))
    assert not (folder / "r").exists()


def test_interrupted_in_the_middle_and_continued(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = folder / "r" / STUDY / trial("tas-depth") / "kd" / "result.json"
    process = start(folder, "r", "reproduce", "table3", *OPTIONS)
    wait_for(first, process)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    said = (folder / "r.err").read_text()
    assert "4 runs to do: about" in said  # the teacher, and three methods
    assert "run the same command again to continue" in said

    for place in ("r", f"r/{STUDY}"):
        assert run_status(Path(place))["state"] == "interrupted"

    before = first.stat().st_mtime_ns
    config = Path("r", STUDY, "config.toml")  # as folders had it before
    config.write_text(
        config.read_text().replace('command = "reproduce"', 'command = "studytrials"')
    )
    assert main(["reproduce", "table3", *OPTIONS, "--out=r", "--json"]) == 0
    captured = capsys.readouterr()
    assert "2 runs to do: about" in captured.err
    files = json.loads(captured.out)["files"]
    assert files == {"table3": {kind: f"r/table3.{kind}" for kind in ("md", "csv", "html")}}
    assert first.stat().st_mtime_ns == before

    seen = run_status(Path("r"))
    assert (seen["state"], seen["stage"], seen["done"], seen["total"]) == ("finished", STUDY, 1, 1)
    seen = run_status(Path("r", STUDY))
    assert seen["command"] == "reproduce"
    assert {each["state"] for each in seen["trials"]} == {"done"}

    lines = lines_of("table3")
    assert set(lines) == {"tas-depth", "tas-width", "tas"}
    teacher = result_of("teacher")["accuracy"]
    text = (folder / "r" / "table3.md").read_text()
    assert f"| unpruned | – | – | – | {teacher:.2%} (n = 1) |" in text
    for name, line in lines.items():
        own = result_of(trial(name), "kd")["after"]
        assert (line["transfer"], line["budget"], line["ours_n"]) == ("kd", "0.5", "1")
        assert float(line["ours_accuracy"]) == own["accuracy"]
        assert float(line["ours_macs"]) == own["macs"]
        assert float(line["ours_drop"]) == pytest.approx(teacher - own["accuracy"])
        assert line["paper_accuracy"] == ""
        assert f"| {name} | – | – | – | {own['accuracy']:.2%} (n = 1) |" in text
    assert "<td>tas-width</td>" in (folder / "r" / "table3.html").read_text()


def test_search_steps_that_were_measured_are_not_planned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "table2-steps", *OPTIONS, "--dry-run", "--out=r"]
    assert main(arguments) == 0
    assert "1 search step for each |I| of table 2" in capsys.readouterr().out
    Path("r", "table2-steps").mkdir(parents=True)
    Path("r", "table2-steps", "result.json").write_text("{}")
    assert main(arguments) == 0
    assert "search step" not in capsys.readouterr().out


def test_figure4_is_eight_searches_a_table_of_numbers_and_a_picture(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "figure4", *OPTIONS, "--out=r", "--json"]) == 0
    name = f"figure4-{STUDY}"
    files = json.loads(capsys.readouterr().out)["files"]
    assert files == {name: {kind: f"r/{name}.{kind}" for kind in ("csv", "png")}}
    with (folder / "r" / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(float(r["lambda"]), r["align"], r["sampling"]) for r in rows] == list(
        itertools.product((0.0, 2.0), ("pool", "pad"), ("gumbel", "softmax"))
    )
    assert all(0 < float(row["expected"]) <= 1 for row in rows)
    assert (folder / "r" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel1"], "there is no 'tabel1' to reproduce; did you mean 'table1'?"),
        ([], "nothing to reproduce: give table1, table2, table3, table4, figure4 or all"),
        (["table4", "--scale=paper"], "table4 at the scale paper needs ImageNet: give --photos"),
    ],
)
def test_refused_with_a_line(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments, "--out=r"]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "r").exists()
