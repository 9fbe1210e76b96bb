"""tas compare and tas sweep on a small network."""

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from support.command_process import start, wait_for
from support.tiny_prune import prepare
from transformable.cli.entry import main
from transformable.cli.parsing import parse
from transformable.cli.pruning_options import Compare
from transformable.runs.status import run_status

BASE = [
    "--model=net.py:net",
    "--data=npz:tiny.npz",
    "--teacher-epochs=4",
    "--search-epochs=2",
    "--epochs=3",
    "--batch-size=16",
    "--tolerance=0.1",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(prepare(tmp_path))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, *BASE, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def written(out: Path) -> dict[str, int]:
    """When each result was written."""
    return {str(path): path.stat().st_mtime_ns for path in out.glob("*/*/result.json")}


def test_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["compare", "--metric=params", "--seeds=2", "--transfer=none,init", "--out=c"]
    result = run(capsys, *options, "--methods=uniform,lccl")
    rows = {(r["method"], r["seed"], r["transfer"]): r for r in result["rows"]}
    assert set(rows) == {
        (m, s, t) for m in ("uniform", "lccl") for s in (0, 1) for t in ("none", "init")
    }
    target = result["targets"]["0.5"]
    for (method, _, _), row in rows.items():
        if method == "lccl":  # it saves none
            assert row["state"] == "failed"
            assert "param" in row["reason"]
            assert row["accuracy"] is None
        else:
            assert row["state"] == "done"
            assert target["low"] <= row["params"] == row["cost"] <= target["high"]
            assert 0 <= row["accuracy"] <= 1
            assert row["latency_ms"] > 0
            assert row["search_seconds"] > 0
            assert row["train_seconds"] > 0
    seen = run_status(folder / "c")
    assert seen["state"] == "finished"
    assert {each["trial"]: each["state"] for each in seen["trials"]} == {
        f"{m}-0.5-seed{s}": state
        for m, state in (("uniform", "done"), ("lccl", "failed"))
        for s in (0, 1)
    }
    assert {each["reason"] for each in seen["trials"]} == {None, rows["lccl", 0, "none"]["reason"]}
    with (folder / "c" / "results.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 8
    assert sum(line["state"] == "failed" for line in lines) == 4
    assert "lccl" in (folder / "c" / "results.md").read_text()
    assert "uniform" in (folder / "c" / "report.html").read_text()

    # the report can be made again from what is there
    page = (folder / "c" / "report.html").read_text()
    (folder / "c" / "report.html").unlink()
    assert main(["report", "c", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == "c/report.html"
    assert (folder / "c" / "report.html").read_text() == page

    # what is done is not done again, also if more is asked for; what failed is tried again
    before = written(folder / "c")
    result = run(capsys, *options, "--methods=uniform,pfec,lccl")
    after = written(folder / "c")
    assert {path: after[path] for path in before} == before
    again = {(r["method"], r["seed"], r["transfer"]): r for r in result["rows"]}
    for key in rows:
        assert again[key]["accuracy"] == rows[key]["accuracy"]
    # fresh networks of the same widths, from the same seed on the same images
    for seed in (0, 1):
        pair = [again[method, seed, "none"] for method in ("uniform", "pfec")]
        assert pair[0]["accuracy"] == pair[1]["accuracy"]
        assert pair[0]["params"] == pair[1]["params"]


@pytest.mark.parametrize(
    ("arguments", "transfers"),
    [
        ([], ["init+kd"]),
        (["--preset=scratch"], ["kd"]),
        (["--student.transfer=none"], ["none"]),
        (["--transfer=kd,none", "--student.transfer=init"], ["none", "kd"]),
    ],
)
def test_small_networks_take_over_what_the_preset_says(
    arguments: list[str], transfers: list[str]
) -> None:
    assert parse("compare", Compare, arguments).transfers() == transfers


def test_all_methods_spend_the_same_passes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["compare", "--methods=uniform,sfp,random", "--seeds=1", "--out=c"]
    result = run(capsys, *options)
    assert result["passes"] == 2 + 3
    # the tests of random's eight shapes are among them
    assert {row["method"]: row["passes"] for row in result["rows"]} == {
        "uniform": 5,
        "sfp": 5,
        "random": pytest.approx(5, abs=0.01),
    }
    epochs = {
        method: len((folder / "c" / f"{method}-0.5-seed0" / "init+kd" / "student" / "metrics.csv")
                    .read_text().splitlines()) - 1
        for method in ("uniform", "sfp", "random")
    }  # fmt: skip
    assert epochs == {"uniform": 5, "sfp": 3, "random": 3}
    trial = json.loads((folder / "c" / "sfp-0.5-seed0" / "init+kd" / "result.json").read_text())
    assert trial["passes"] == {"search": 2, "student": 3}
    summary = (folder / "c" / "sfp-0.5-seed0" / "init+kd" / "summary.md").read_text()
    assert "forward and backward: 5 (search 2, student 3)." in summary
    page = (folder / "c" / "sfp-0.5-seed0" / "init+kd" / "report.html").read_text()
    assert "5 (search 2, student 3)" in page
    with (folder / "c" / "results.csv").open() as file:
        assert [float(line["passes"]) for line in csv.DictReader(file)][:2] == [5, 5]
    # more of them for all
    result = run(capsys, *options[:3], "--methods=uniform,sfp", "--out=d", "--passes=7")
    assert [row["passes"] for row in result["rows"]] == [7, 7]
    assert main([*options, *BASE, "--passes=7"]) == 2
    assert "passes is 5 there and 7 here" in capsys.readouterr().err


OWN = """
import transformable as tas
from transformable.methods import MethodResult

def coarse(model, space, budget, context):
    shape = space.full.replace(widths=dict(zip(space.full.widths, (9, 7, 7))))
    small = tas.slim(model, space, shape)
    return MethodResult(shape=shape, model=small, cost=budget.cost(space, shape))
"""


def test_a_coarse_method_is_compared_at_another_cost_and_marked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.py").write_text(OWN)
    options = [option for option in BASE if "tolerance" not in option]
    # 8 channels everywhere: 9 x 8 x 36 + 2 x 9 x 64 x 36 + 8 x 4 + 4
    budget = 44_100
    arguments = ["compare", "--methods=uniform,mine.py:coarse", "--seeds=1", "--out=c"]
    assert main([*arguments, *options, f"--budget={budget}", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    target = result["targets"][str(budget)]
    assert (target["low"], target["high"]) == (43_880, 44_320)
    costs = {row["method"]: row["macs"] for row in result["rows"]}
    # 9 x 9 x 36 + 2 x 9 x 63 x 36 + 9 x 4 + 4 is less by 0.7 %
    assert costs == {"uniform": 44_100, "mine.py:coarse": 43_780}
    text = (folder / "c" / "results.md").read_text()
    table = text.split("## Differences")[0]
    marks = {
        line.split(" | ")[0]: "§" in line for line in table.splitlines() if "| init+kd |" in line
    }
    assert marks == {"| uniform": False, "| mine.py:coarse": True}
    assert "outside the band of its budget (± 0.5%)" in text
    # five percent are the widest band
    arguments[-1] = "--out=d"
    assert main([*arguments, *options, "--budget=46500", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    reasons = {row["method"]: row["reason"] for row in result["rows"]}
    assert reasons["uniform"] is None
    assert "43,780 MACs, outside of 44,175 to 48,825" in reasons["mine.py:coarse"]


def test_other_settings_need_another_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "compare", "--methods=uniform", "--seeds=1", "--out=c")
    assert main(["compare", *BASE, "--methods=uniform", "--out=c", "--budget=0.6"]) == 2
    assert "budget is 0.5 there and 0.6 here" in capsys.readouterr().err
    assert main(["compare", *BASE, "--methods=uniform", "--out=c", "--preset=paper"]) == 2
    assert "train.warmup_epochs is 0.5 there and 5.0 here" in capsys.readouterr().err
    assert main(["sweep", *BASE, "--out=c"]) == 2
    assert (
        "run folder c belongs to another config: command is compare there and sweep here"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--methods=pfek", "unknown method 'pfek'; did you mean 'pfec'?"),
        ("--methods=,", "methods must not be empty"),
        ("--transfer=copy", "transfer must be some of none, init, kd, init+kd, not 'copy'"),
        ("--passes=2", "passes must be more than the 2 epochs of the search, not 2; or use fewer"),
        ("--seeds=0", "seeds must be at least 1, not 0"),
        ("--budget=0.001", "a budget of 0.001 is"),
        ("--devices=2", "use --jobs instead of --devices"),
        ("--teacher=nowhere.pt", "nowhere.pt"),
    ],
)
def test_bad_input(
    option: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *BASE, "--out=c", option]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "c").exists()


def test_all_failed_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--methods=lccl", "--seeds=1", "--metric=params", "--out=c"]
    assert main(["compare", *BASE, *options]) == 2
    assert "all 1 runs failed; the first:" in capsys.readouterr().err


def test_an_interrupted_comparison_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--methods=sfp", "--seeds=1", "--search-epochs=400"]
    arguments = ["compare", *BASE, *options]
    process = start(folder, "c", *arguments)
    checkpoint = folder / "c" / "sfp-0.5-seed0" / "search" / "checkpoint.pt"
    wait_for(checkpoint, process)
    seen = run_status(folder / "c")
    assert (seen["state"], seen["stage"], seen["done"], seen["total"]) == (
        "running",
        "trials",
        0,
        1,
    )
    [trial] = seen["trials"]
    assert (trial["trial"], trial["state"]) == ("sfp-0.5-seed0", "running")
    assert trial["stage"] == "2/3 search: training"
    assert trial["total"] == 400 * 7
    assert trial["process"]["pid"] != seen["process"]["pid"] == process.pid
    process.terminate()
    process.join(60)
    seen = run_status(folder / "c")
    assert seen["state"] == "interrupted"
    assert [(each["state"], each["process"]["alive"]) for each in seen["trials"]] == [
        ("waiting", False)
    ]
    assert process.exitcode == 130
    assert "run the same command again to continue" in (folder / "c.err").read_text()
    assert not (checkpoint.parent / "result.json").exists()
    saved = checkpoint.stat().st_mtime_ns
    result = run(capsys, "compare", "--methods=sfp", "--seeds=1", "--out=d")
    assert result["rows"][0]["state"] == "done"
    assert saved == checkpoint.stat().st_mtime_ns


def test_a_trial_that_is_interrupted_in_its_training_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--methods=uniform", "--seeds=1", "--epochs=150", "--checkpoint-seconds=0"]
    arguments = ["compare", *BASE, *options]
    process = start(folder, "c", *arguments)
    checkpoint = folder / "c" / "uniform-0.5-seed0" / "init+kd" / "student" / "checkpoint.pt"
    wait_for(checkpoint, process)
    process.terminate()
    process.join(60)
    assert process.exitcode == 130
    assert not (checkpoint.parent / "result.json").exists()
    assert main([*arguments, "--out=c", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert row["state"] == "done", row["reason"]


def test_two_processes_share_the_trials_of_a_sweep(folder: Path) -> None:
    arguments = ["sweep", *BASE, "--methods=uniform,pfec", "--budgets=0.4,0.5,0.6"]
    both = [start(folder, "s", *arguments) for _ in range(2)]
    for process in both:
        process.join(300)
        assert process.exitcode == 0
    told = (folder / "s.err").read_text()
    names = [f"{m}-{b}-seed0" for m in ("uniform", "pfec") for b in ("0.4", "0.5", "0.6")]
    # each trial was run by one of them, once
    for name in names:
        assert told.count(f"{name}: init") == 1, told
    for line in (folder / "s.out").read_text().splitlines():
        rows = json.loads(line)["rows"]
        assert [row["state"] for row in rows] == ["done"] * 6
    with sqlite3.connect(folder / "s" / "study.db") as base:
        states = base.execute("select state, count(*) from trials group by state").fetchall()
    assert dict(states)["COMPLETE"] == 6
    assert set(dict(states)) <= {"COMPLETE", "PRUNED"}


def test_a_sweep_is_a_front(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, "sweep", "--methods=uniform", "--budgets=0.4,0.6", "--out=s")
    assert result["kind"] == "sweep"
    costs = {row["budget"]: row["macs"] for row in result["rows"]}
    for budget, target in result["targets"].items():
        assert target["low"] <= costs[budget] <= target["high"]
    page = (folder / "s" / "report.html").read_text()
    assert "0.4" in page
    assert "0.6" in page
    assert "share one search" not in page


def test_several_budgets_share_one_search(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, "prune", "--budget=0.5,0.8", "--out=p", "--no-export")
    rows = {row["budget"]: row for row in result["rows"]}
    assert set(rows) == {"0.5", "0.8"}
    for budget, row in rows.items():
        target = result["targets"][budget]
        assert row["state"] == "done", row["reason"]
        assert target["low"] <= row["macs"] <= target["high"]
        assert row["transfer"] == "init+kd"
        search = folder / "p" / f"tas-{budget}-seed0" / "search"
        assert not (search / "steps.csv").exists()
        page = (folder / "p" / f"tas-{budget}-seed0" / "init+kd" / "report.html").read_text()
        assert "<script>" in page  # that of the probabilities of the search
        made = (folder / "p" / f"tas-{budget}-seed0" / "init+kd" / "summary.md").read_text()
        assert "\nMade by `tas prune --budget=0.5,0.8 " in made
    assert run_status(folder / "p")["command"] == "prune"
    assert "share one search" in (folder / "p" / "results.md").read_text()
    assert (folder / "p" / "report.html").exists()
    # the search is in a folder of its own, with all its steps: two epochs of 7 batches
    steps = (folder / "p" / "tas-0.5_0.8-seed0" / "steps.csv").read_text().splitlines()
    assert len(steps) == 1 + 2 * 7
    # the larger budget was passed in the middle of it
    large, small = (
        json.loads((folder / "p" / f"tas-{b}-seed0" / "search" / "result.json").read_text())
        for b in ("0.8", "0.5")
    )
    assert (large["epochs_before"], small["epochs_before"]) == (1, 2)
    # each is trained for the epochs of the settings, as with one budget
    for budget in rows:
        student = folder / "p" / f"tas-{budget}-seed0" / "init+kd"
        log = (student / "student" / "metrics.csv").read_text().splitlines()
        passes = json.loads((student / "result.json").read_text())["passes"]
        assert len(log) - 1 == passes["student"] == result["epochs"]
    # there are two networks: a command for one of them names both
    assert main(["evaluate", "p"]) == 2
    said = capsys.readouterr().err
    assert "p holds several networks; choose one of them: p/tas-0.5-seed0/init+kd, p/tas-" in said
    assert large["passes"] >= 1
    assert small["passes"] >= 1 + large["passes"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--devices=2", "several budgets take one device"),
        ("--method=uniform,pfec", "unknown method 'uniform,pfec'"),
        ("--budget=0.8,0.001", "a budget of 0.001 is"),
        ("--ratios=0.5", "no shape of this network has"),
    ],
)
def test_bad_input_with_several_budgets(
    option: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prune", *BASE, "--budget=0.5,0.8", "--out=p", option]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "p").exists()
