"""The table of a comparison on the terminal."""

import io
import re
from typing import Any

from rich.console import Console

from support.made_up_comparison import about, open_run, run, seeds
from transformable.cli.results_table import results_table, unequal_passes


def shown(
    rows: list[dict[str, Any]],
    teacher: dict[str, Any] | None,
    columns: int,
    targets: dict[str, Any] | None = None,
) -> list[str]:
    console = Console(width=columns, file=io.StringIO(), color_system=None)
    with console.capture() as capture:
        console.print(results_table(rows, teacher, targets))
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


def test_the_table_while_it_runs() -> None:
    rows = [
        *(open_run("cp", "waiting", seed=i) for i in range(3)),
        run("tas", 0.80, 0, search_seconds=1234.56),
        run("tas", 0.82, 1, search_seconds=1234.56),
        open_run("tas", "running", seed=2),
        *seeds("pfec", 0.7, 0.7, passes=45.5),
        open_run("pfec", "failed", "[bold]out[/bold]", seed=2),
        open_run("amc", "failed", "out", seed=0),
        open_run("amc", "waiting", seed=1),
        open_run("sfp", "running", "search 40%"),
    ]
    lines = [re.split(r"\s{2,}", line.strip()) for line in shown(rows, about()["teacher"], 110)]
    assert lines[0] == ["method", "runs", "accuracy", "MACs", "passes", "seconds"]
    # the order is that of the runs: no line jumps while results come in
    assert lines[2:] == [
        ["unpruned", "82.00%", "10.00M", "–", "300"],
        ["cp", "waiting", "–", "–", "–", "–"],
        ["tas", "2/3 done, running", "81.00% ± 1.41", "5.00M", "45", "1,415"],
        ["pfec", "2/3 done, 1 failed: [bold]out[/bold]", "70.00% ± 0.00", "5.00M", "45.5", "192"],
        ["amc", "waiting, 1 failed: out", "–", "–", "–", "–"],
        ["sfp", "running: search 40%", "–", "–", "–", "–"],
    ]


def test_what_is_outside_the_band_is_marked() -> None:
    rows = [run("tas", 0.80), run("pfec", 0.70, cost=5_026_000)]
    target = {"metric": "macs", "value": 5e6, "low": 4_975_000, "high": 5_025_000}
    lines = shown(rows, None, 110, {"0.5": target})
    assert "80.00%" in lines[2]
    assert "§" not in lines[2]
    assert "70.00% §" in lines[3]
    told = "§ outside the band of its budget: compared at another cost"
    assert " ".join(lines[4:]).split() == told.split()


def test_passes_that_are_not_equal_are_named() -> None:
    rows = [run("tas", 0.8, passes=45), run("cp", 0.7, passes=45.5), run("amc", 0.7, passes=61.5)]
    assert unequal_passes(rows[:2], 45) == []
    assert unequal_passes(rows, None) == []  # nothing was promised
    assert unequal_passes(rows, 45) == [
        "passes are not equal: each method was given 45, and amc took 61.5"
    ]


def test_the_table_is_as_wide_as_the_terminal() -> None:
    rows = [
        row
        for budget in ("0.3", "0.5")
        for transfer in ("init", "init+kd")
        for row in [
            *seeds("autoslim", 0.80, 0.82, transfer=transfer, budget=budget),
            open_run("amc", "failed", "word " * 40, transfer=transfer, budget=budget),
        ]
    ]
    for columns in (80, 100):
        lines = shown(rows, None, columns)
        assert max(map(len, lines)) <= columns
        assert all(line.endswith("192") for line in lines if "2/2 done" in line)
        text = " ".join(lines)
        assert "budget" in text
        assert "transfer" in text
        assert "failed:" in text
        assert "2/2 done" in text
        assert text.count("81.00% ± 1.41") == 4
