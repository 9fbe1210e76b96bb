"""Made-up results beside the paper's figures."""

from pathlib import Path
from typing import Any

from transformable.reproducing.figure4 import Strategy
from transformable.reproducing.figure4 import csv_of as figure_csv
from transformable.reproducing.layout import Results, csv_of
from transformable.reproducing.lines import Line, Run, Section, sections
from transformable.reproducing.pages import write_table
from transformable.reproducing.scales import SCALES
from transformable.reproducing.search_steps import steps_table


def row(run: Run, seed: int, accuracy: float | None, macs: int, **more: Any) -> dict[str, Any]:
    state = "failed" if accuracy is None else "done"
    numbers = dict.fromkeys(("params", "passes", "latency_ms", "measured", "reason"))
    times = {"search_seconds": 100.0, "train_seconds": 50.0}
    scores = {"accuracy": accuracy, "top5": 0.9, "macs": macs, "cost": macs}
    how = {name: getattr(run, name) for name in ("method", "budget", "transfer")}
    return {**how, "seed": seed, "state": state, **numbers, **times, **scores, **more}


def results(found: list[Section], made: dict[str, list[float | None]]) -> Results:
    """Results with the given accuracies; lines that are not named are waiting."""
    rows = {}
    for section in found:
        for line in section.lines:
            scores = made.get(line.name)
            rows[line.run] = (
                [row(line.run, 0, None, 0, state="waiting")]
                if scores is None
                else [
                    row(line.run, seed, score, 6_000_000, reason="no | way")
                    for seed, score in enumerate(scores)
                ]
            )
    teacher = {"accuracy": 0.75, "top5": 0.95, "macs": 10_000_000, "train_seconds": 60.0}
    return Results(rows=rows, teachers={(s.model, s.data): teacher for s in found})


def only(section: Section, *names: str) -> Section:
    lines = tuple(line for line in section.lines if line.name in names)
    return Section(
        table=section.table,
        model=section.model,
        data=section.data,
        dataset=section.dataset,
        lines=lines,
    )


def test_table1_as_markdown(tmp_path: Path) -> None:
    [whole] = sections("table1", SCALES["small"], (), ("cifar10:16",))
    found = [only(whole, "Pre-defined w/ Init", "Random Search", "TAS w/ KD", whole.lines[-1].name)]
    made: dict[str, list[float | None]] = {
        "Pre-defined w/ Init": [0.70],
        "Random Search": [None],
        "TAS w/ KD": [0.72, 0.74],
    }
    files = write_table(tmp_path, "table1", found, results(found, made), "tas reproduce table1")
    assert set(files) == {"md", "csv", "html"}
    assert (
        (tmp_path / "table1.md").read_text()
        == """\
# Table 1: structures and kinds of transfer

## resnet32 on cifar10:16, beside the paper's ResNet-32 on CIFAR-100

| method | paper: MACs | paper: accuracy | ours: MACs | ours: accuracy |
|---|---:|---:|---:|---:|
| unpruned | – | – | 10.00M | 75.00% (n = 1) |
| Pre-defined w/ Init | 41.1M | 69.34% | 6.00M (60.0%) | 70.00% (n = 1) |
| Random Search | 42.9M | 68.57% | – | failed: no &#124; way |
| TAS w/ KD | 42.5M | 72.41% | 6.00M (60.0%) | 73.00% ± 1.41 (n = 2) |
| published C100-ResNet32 | – | – | – | not run |

Columns "paper" are the figures that the paper prints, also for the methods of others; columns \
"ours" are what was run here: mean ± standard deviation over n seeds.

MACs are what the paper calls FLOPs; in brackets what is left of the unpruned network's.

Made by `tas reproduce table1`.
"""
    )
    page = (tmp_path / "table1.html").read_text()
    assert "<td>TAS w/ KD</td><td>42.5M</td><td>72.41%</td><td>6.00M (60.0%)</td>" in page


def test_table3_has_drops_and_shares() -> None:
    [section] = sections("table3", SCALES["small"], (), ("cifar10:16",))
    found = only(section, "TAS")
    lines = csv_of([found], results([found], {"TAS": [0.70]})).splitlines()
    numbers = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))
    assert numbers["paper_accuracy"] == "92.88"
    assert numbers["paper_macs"] == "22400000"
    assert float(numbers["ours_accuracy"]) == 0.70
    assert abs(float(numbers["ours_drop"]) - 0.05) < 1e-12
    assert (numbers["transfer"], numbers["budget"]) == ("kd", "0.550")


def test_nothing_of_the_paper_is_taken_for_ours() -> None:
    for table in ("table1", "table2", "table3", "table4"):
        for section in sections(table, SCALES["smoke"], (), ("digits",)):
            lines = csv_of([section], results([section], {})).splitlines()
            names = lines[0].split(",")
            for line in lines[1:]:
                values = dict(zip(names, line.split(","), strict=True))
                ours = {name for name in names if name.startswith("ours_") and values[name]}
                assert ours == {"ours_n", "ours_failed"}


def test_search_steps() -> None:
    made = [
        {
            "select": select,
            "seconds": seconds,
            "processor_seconds": 2 * seconds,
            "memory_bytes": 10**9,
            "batch": 256,
        }
        for select, seconds in ((1, 2.0), (8, 2.1))
    ]
    table = steps_table(made)
    assert table.title.endswith("(ResNet-32, 32x32 images, batches of 256)")
    assert table.cells[0] == [
        *("|I| = 1", "2.83 h (1.00x)", "1.5 GB (1.00x)"),
        *("2.00 s (1.00x)", "4.00 s (1.00x)", "1.00 GB (1.00x)"),
    ]
    assert table.cells[1] == ["|I| = 2", "3.83 h (1.35x)", "2.4 GB (1.60x)", "–", "–", "–"]
    assert table.cells[4][1:] == [
        *("10.64 h (3.76x)", "7.3 GB (4.87x)"),
        *("2.10 s (1.05x)", "4.20 s (1.05x)", "1.00 GB (1.00x)"),
    ]


def test_figure_as_numbers() -> None:
    strategy = Strategy(align="pad", sampling="gumbel", pull=2.0)
    epoch = {"step": 3, "expected": 0.5, "derived": 0.4, "discrepancy": 0.1, "accuracy": 0.2}
    assert figure_csv({strategy: {"rows": [epoch]}}) == (
        "align,sampling,lambda,step,expected,derived,discrepancy,accuracy\n"
        "pad,gumbel,2.0,3,0.5,0.4,0.1,0.2\n"
    )


def test_a_network_that_the_paper_has_not() -> None:
    [section] = sections("table3", SCALES["small"], ("net.py:net",), ("digits",))
    assert [line.name for line in section.lines] == ["tas-depth", "tas-width", "tas"]
    assert {line.run.budget for line in section.lines} == {"0.5"}
    assert all(isinstance(line, Line) and line.paper is None for line in section.lines)
