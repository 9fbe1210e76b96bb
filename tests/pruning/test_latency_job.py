"""The whole job for a budget in milliseconds, on a machine whose times follow a law."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from support.timed_by_law import OVERHEAD, time_by_law
from support.tiny_prune import OPTIONS, prepare
from transformable.cli.entry import main
from transformable.costing.latency import Latency
from transformable.methods import tas
from transformable.report.formatting import significant
from transformable.searching.search import search_all
from transformable.timing import table_file
from transformable.tracing.space import Space


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(prepare(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(table_file, "processor", lambda: "a processor")
    time_by_law(monkeypatch)
    return tmp_path


LATENCY = [*OPTIONS, "--metric=latency", "--teacher-epochs=1", "--search-epochs=1", "--epochs=1"]


def result(folder: str = "run") -> Any:
    return json.loads(Path(folder, "result.json").read_text())


@pytest.mark.parametrize("method", ["tas", "uniform"])
def test_the_network_takes_what_was_promised(
    here: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    assert main([*LATENCY, "--budget=0.7", f"--method={method}", "--out=run", "--no-export"]) == 0
    found = result()
    target, after = found["target"], found["after"]
    assert target["metric"] == "latency"
    assert target["value"] == pytest.approx(0.7 * found["before"]["latency"], rel=1e-3)
    assert target["conditions"] == "torch at batch 1, 1 thread, on a processor"
    assert target["low"] <= after["latency"] <= target["high"]
    assert after["latency"] == pytest.approx(found["timed"]["after"]["median_ms"], rel=1e-3)
    rows = found["layers"]
    whole = sum(row["us_before"] for row in rows)
    assert whole == pytest.approx(1000 * found["before"]["latency"] - OVERHEAD / 1e3, rel=0.02)
    assert sum(row["us_after"] for row in rows) < whole
    shown = capsys.readouterr().out
    assert "latency budget: met" in shown
    # one network has one latency
    assert f"{after['latency']:.3g} ms" in shown
    assert after["latency_ms"] == after["latency"]
    page = Path("run", "report.html").read_text()
    if method == "tas":
        assert "Cost in milliseconds" in page
        expected = Path("run", "search", "metrics.csv").read_text().splitlines()
        last = dict(zip(expected[0].split(","), expected[-1].split(","), strict=True))
        assert f"E <b>{significant(float(last['expected']))}</b>" in page
    assert "µs before" in page
    assert "lies in the band of" in page


def test_a_search_that_has_settled_its_times_is_not_repeated(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine on which every network takes 1.09 times the target: inside of the band, but
    not by the margin for which shapes are derived again."""
    searches: list[tuple[Any, ...]] = []

    def counted(*arguments: Any, **more: Any) -> Any:
        searches.append(arguments)
        return search_all(*arguments, **more)

    monkeypatch.setattr(tas, "search_all", counted)

    def shape_timer(model: nn.Module, space: Space, latency: Latency, device: Any) -> Any:
        return lambda shape: 1.09 * 0.7 * latency.full

    monkeypatch.setattr(table_file, "shape_timer", shape_timer)
    assert main([*LATENCY, "--budget=0.7", "--out=run", "--no-export"]) == 0
    assert len(searches) == 1
    searched = json.loads(Path("run", "search", "result.json").read_text())
    assert searched["cost"] == pytest.approx(1.09e6 * result()["target"]["value"], abs=1)


def test_milliseconds_beside_macs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    macs = [*OPTIONS, "--teacher-epochs=1", "--search-epochs=1", "--epochs=1", "--no-export"]
    assert main([*macs, "--budget=0.5", "--out=alone"]) == 0
    alone = result("alone")
    from_table = ["--budget=0.5", "--at-most=latency=0.8", "--out=both"]
    assert main([*macs, *from_table, "--teacher=alone"]) == 0
    both = result("both")
    assert both["target"]["low"] <= both["after"]["macs"] <= both["target"]["high"]
    [(metric, high)] = both["target"]["at_most"].items()
    assert metric == "latency"
    assert both["after"]["latency"] <= high
    assert both["after"]["latency"] == pytest.approx(both["timed"]["ms"])
    assert "limit of at most " in capsys.readouterr().out
    assert "The limit of at most " in Path("both", "report.html").read_text()
    assert "timed" not in alone


def test_times_of_another_machine_are_not_called_measured(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ["latency", "--model=net.py:net", "--data=npz:tiny.npz", "--out=t.json"]
    assert main(table) == 0
    path = Path("t.json")
    path.write_text(path.read_text().replace("a processor", "elsewhere"))
    named = ["--latency-table=t.json", "--latency-machine=elsewhere", "--out=run", "--no-export"]
    assert main([*LATENCY, "--budget=0.7", *named]) == 0
    found, shown = result(), " ".join(capsys.readouterr().out.split())
    assert "timed" not in found
    assert found["target"]["low"] <= found["after"]["latency"] <= found["target"]["high"]
    assert "by the table, not measured here" in shown
    assert "1 thread, on elsewhere" in shown
    page = Path("run", "report.html").read_text()
    assert "1 thread, on elsewhere, by the table, not measured here." in page
    assert "was not measured here: torch at batch 1, 1 thread, on elsewhere." in page
    assert "µs before" in page
    assert "| latency |" in Path("run", "summary.md").read_text()


def test_one_table_for_all_commands(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    latency = ["latency", "--model=net.py:net", "--data=npz:tiny.npz"]
    assert main([*latency, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["machine"] == "a processor"
    assert 0 < first["smallest_ms"] < first["latency_ms"]
    monkeypatch.setattr(table_file, "measure_latency", None)
    assert main([*latency, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert main(latency) == 0
    assert "stage.0.conv" in capsys.readouterr().out
    search = ["search", "--model=net.py:net", "--data=npz:tiny.npz", "--epochs=1"]
    more = ["--metric=latency", "--budget=0.8", "--batch-size=16", "--pretrain-epochs=0"]
    assert main([*search, *more, "--out=searched", "--json"]) == 0
    searched = json.loads(capsys.readouterr().out)
    assert searched["target"]["low"] <= searched["latency"] <= searched["target"]["high"]
    assert main([*search, *more, "--out=searched"]) == 0
    [verdict] = [row for row in capsys.readouterr().out.splitlines() if "latency budget" in row]
    assert f"met, {searched['latency']:.3g} ms" in verdict


def test_a_search_says_what_it_missed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine on which every network takes nine times the time of the whole one."""

    def shape_timer(model: nn.Module, space: Space, latency: Latency, device: Any) -> Any:
        return lambda shape: 9 * latency.full

    monkeypatch.setattr(table_file, "shape_timer", shape_timer)
    search = ["search", "--model=net.py:net", "--data=npz:tiny.npz", "--epochs=1"]
    more = ["--budget=0.5", "--tolerance=0.2", "--batch-size=16", "--pretrain-epochs=0"]
    assert main([*search, *more, "--at-most=latency=0.9", "--out=limit"]) == 0
    limit = result("limit")
    assert limit["latency"] > 5 * limit["target"]["at_most"]["latency"]
    rows = capsys.readouterr().out.splitlines()
    assert any(
        "limit of at most " in row and f"missed, {limit['latency']:.3g} ms" in row for row in rows
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget=3ms"], "3ms is not a number of MACs; use --metric latency"),
        (["--metric=latency", "--budget=1ns"], "a budget of 1ns is 1e-06 ms, and this network can"),
        (["--metric=latency", "--budget=20M"], "20M is not a time"),
        (
            ["--metric=latency", "--latency-table=none.json"],
            "none.json does not exist; tas latency",
        ),
        (["--metric=latency", "--latency-table=theirs.json"], "measured on 'another processor'"),
        (["--metric=latency", "--runtime=onnxruntime"], "onnxruntime is not installed"),
        (["--at-most=latency=1ns"], "at most 1e-06 ms is not possible: no shape of"),
        (["--at-most=watts=3"], "with a metric of macs, params, latency, not 'watts="),
        (["--at-most=macs=3M"], "the budget itself is in macs"),
        (["--divisor=0"], "divisor must be a whole number of at least 1, or auto, not 0"),
    ],
)
def test_bad_input_is_one_line_and_2(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    latency = ["latency", "--model=net.py:net", "--data=npz:tiny.npz"]
    if "--latency-table=theirs.json" in options:
        monkeypatch.setattr(table_file, "processor", lambda: "another processor")
        assert main([*latency, "--out=theirs.json"]) == 0
        monkeypatch.setattr(table_file, "processor", lambda: "a processor")
    if "--runtime=onnxruntime" in options:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    elif any("latency" in option for option in options) and "none.json" not in options[-1]:
        assert main(latency) == 0  # so that nothing is said of measuring
    capsys.readouterr()
    assert main([*OPTIONS, "--out=run", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tas: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not Path("run", "search").exists()
