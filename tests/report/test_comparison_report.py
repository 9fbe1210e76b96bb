"""What is told of a comparison and of a sweep: right numbers, no claim too many, nothing lost."""

import csv
import io
import random
import re
from pathlib import Path
from typing import Any

import pytest

from support.browser import BROWSER, browse
from support.html_tree import Node, parse, spots, width
from support.made_up_comparison import about, open_run, run, seeds
from transformable import methods
from transformable.report import label_placement
from transformable.report.comparison_page import comparison_markdown, comparison_page
from transformable.report.comparison_results import (
    average_over_seeds,
    compared_entries,
    csv_text,
    differences,
)
from transformable.report.paired import paired_difference
from transformable.report.scatter_plot import Point, ScatterPlot

METHODS = list(methods.METHODS)


def table(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def read(rows: list[dict[str, Any]], **changes: Any) -> Node:
    return parse(comparison_page(rows, about(**changes)))


def lead(rows: list[dict[str, Any]], **changes: Any) -> str:
    return read(rows, **changes).all("p", "lead")[0].text


# results.csv


def test_the_file_of_all_runs() -> None:
    failed = open_run("amc", "failed", 'no shape, "none"\n  at all', seed=1, transfer="none")
    rows = [run("pfec", 0.801, measured=True, latency_ms=None), failed, open_run("cp", "waiting")]
    assert csv_text(rows) == (
        "method,budget,seed,transfer,state,reason,accuracy,top5,macs,params,cost,measured,"
        "passes,latency_ms,search_seconds,train_seconds\n"
        "pfec,0.5,0,init,done,,0.801,0.99,5000000,136000,5000000,True,45,,12.5,180.0\n"
        'amc,0.5,1,none,failed,"no shape, ""none"" at all",,,,,,False,,,,\n'
        "cp,0.5,0,init,waiting,,,,,,,False,,,,\n"
    )
    found = list(csv.DictReader(io.StringIO(csv_text(rows))))
    assert found[1]["reason"] == 'no shape, "none" at all'


# means


def test_means_and_spread_by_hand() -> None:
    rows = [
        run("tas", 0.80, 0, macs=4900000, cost=4900000, latency_ms=1.0),
        run("tas", 0.82, 1, macs=5100000, cost=5100000, latency_ms=None, search_seconds=17.5)
        | {"passes": 46.5},
        run("tas", 0.78, 2, macs=5000000, cost=5000000, latency_ms=2.0),
        open_run("tas", "failed", "out of memory", seed=3),
        open_run("tas", "failed", "out of memory", seed=4),
        open_run("tas", "running", seed=5),
    ]
    (entry,) = average_over_seeds(rows, {})
    numbers = {name: entry.pop(name) for name in ("accuracy", "accuracy_std", "search_seconds")}
    # deviations of 0, 2 and -2 points: the root of 8 / 2
    assert list(numbers.values()) == pytest.approx([0.8, 0.02, 42.5 / 3])
    assert entry == {
        "method": "tas",
        "budget": "0.5",
        "transfer": "init",
        "n": 3,
        "failed": 2,
        "running": 1,
        "waiting": 0,
        "reasons": ["out of memory"],
        "cost": 5000000,
        "macs": 5000000,
        "params": 136000,
        "passes": 45.5,
        "by_seed": {0: 0.80, 1: 0.82, 2: 0.78},
        "latency_ms": 1.5,
        "train_seconds": 180.0,
        "cost_range": [4900000, 5100000],
        "measured": False,
        "shared_search": False,
    }


def test_one_run_has_no_spread() -> None:
    (entry,) = average_over_seeds([run("tas", 0.8)], {})
    assert entry["accuracy"] == 0.8
    assert entry["accuracy_std"] is None


def test_the_order() -> None:
    rows = [
        open_run("amc", "failed", "x"),
        open_run("cp", "waiting"),
        run("pfec", 0.78),
        run("tas", 0.80),
        run("tas", 0.79, transfer="kd"),
        *(run("tas", 0.5, budget=budget) for budget in ("20M", "0.7", "30%", "900K")),
    ]
    values = {"0.5": 5e5, "0.7": 7e5, "30%": 3e5, "900K": 9e5, "20M": 2e7}
    targets = {budget: {"value": value} for budget, value in values.items()}
    keys = [(e["budget"], e["method"], e["transfer"]) for e in average_over_seeds(rows, targets)]
    assert keys == [
        ("30%", "tas", "init"),
        ("0.5", "tas", "init"),
        ("0.5", "tas", "kd"),
        ("0.5", "pfec", "init"),
        ("0.5", "cp", "init"),
        ("0.5", "amc", "init"),
        ("0.7", "tas", "init"),
        ("900K", "tas", "init"),
        ("20M", "tas", "init"),
    ]


def test_the_order_of_times() -> None:
    targets = {f"{ms}ms": {"value": ms} for ms in (10, 3)}
    rows = [run("tas", 0.5, budget=budget) for budget in targets]
    assert [e["budget"] for e in average_over_seeds(rows, targets)] == ["3ms", "10ms"]


# Markdown


def test_the_whole_text() -> None:
    rows = [
        *seeds("uniform", 0.77, 0.78, 0.79),
        *seeds("tas", 0.80, 0.81, 0.82, train_seconds=60.0, latency_ms=None, passes=45.3),
        open_run("a|b", "failed", "no <shape> | *here*"),
    ]
    assert comparison_markdown(rows, about()) == (
        "# resnet20 on digits: pruning methods compared\n"
        "\n"
        "6 of 7 runs are done, 1 failed. At a budget of 0.5 (5.00M MACs), tas has the highest mean "
        "accuracy: 81.00% ± 1.00 (n = 3), 1.00 points below the unpruned network. It leads uniform "
        "by 3.00 points; seed by seed, the difference from every other is beyond two standard "
        "errors.\n"
        "\n"
        "| method | transfer | accuracy | change | MACs | params | passes | latency | search "
        "| training |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        "| unpruned | – | 82.00% | – | 10.00M | 272.0k | – | 2.00 ms | – | 5.0 min |\n"
        "| tas | init | 81.00% ± 1.00 (n = 3) | −1.00 points | 5.00M (50.0%) | 136.0k (50.0%) "
        "| 45.3 | – | 12.5 s | 60.0 s |\n"
        "| uniform | init | 78.00% ± 1.00 (n = 3) | −4.00 points | 5.00M (50.0%) | 136.0k (50.0%) "
        "| 45 | 1.25 ms | 12.5 s | 3.0 min |\n"
        "| a&#124;b | init | failed: no &lt;shape&gt; &#124; \\*here\\* | – | – | – | – | – | – "
        "| – |\n"
        "\n"
        "± is the sample standard deviation over n seeds.\n"
        "\n"
        "Passes: how often every training image went forward and backward through a network that "
        "learns, in the search and in the training together; forward alone is a third of a pass.\n"
        "\n"
        "Latency: that of a network relative to the unpruned one's, which was timed in turn with "
        "it, times the median of the unpruned one's over all runs; the report of a run has the "
        "times as they were measured.\n"
        "\n"
        "Made by `tas compare --seeds 3`. Each method and the training of its small network had 45 "
        "passes over the training images together, or those in its row where a method leaves none "
        "for the training. Measured on A processor, 2 threads, torch "
        "2.13.0.\n"
        "\n"
        "## Differences, seed by seed\n"
        "\n"
        "| method | transfer | minus the best | minus uniform |\n"
        "|---|---|---:|---:|\n"
        "| tas | init | – | +3.00 ± 0.00 (n = 3, clear) |\n"
        "| uniform | init | −3.00 ± 0.00 (n = 3, clear) | – |\n"
        "\n"
        "The mean over the seeds that both have, in points, ± its standard error. A difference is "
        "clear when it is beyond two standard errors.\n"
        "\n"
        "## Failed runs\n"
        "\n"
        "- a&#124;b, budget 0.5, transfer init, seed 0: no &lt;shape&gt; &#124; \\*here\\*\n"
    )


def test_no_winner_where_a_paired_difference_is_not_clear() -> None:
    rows = [
        *seeds("tas", 0.79, 0.80, 0.81),
        # behind by 0, 1 and 2 points: 1.00 ± 0.58
        *seeds("pfec", 0.79, 0.79, 0.79),
        # the mean ± std overlaps with that of the best, but by 0.9, 1 and 1.1 points: 1.00 ± 0.06
        *seeds("paired", 0.781, 0.79, 0.799),
        *seeds("far", 0.60, 0.61, 0.62),
    ]
    text = comparison_markdown(rows, about())
    assert (
        "It leads pfec by 1.00 points, but seed by seed the difference from pfec is within two "
        "standard errors: there is no clear winner." in text
    )
    cells = {row[0]: row[2] for row in table(text)[:7]}
    assert cells["tas"] == "80.00% ± 1.00 (n = 3)"
    assert cells["pfec"] == "79.00% ± 0.00 (n = 3) ≈"
    assert cells["paired"] == "79.00% ± 0.90 (n = 3)"
    assert cells["far"] == "61.00% ± 1.00 (n = 3)"
    assert "\n≈ not clearly behind the best" in text
    assert read(rows).by_id("results").all("b") == []
    # without uniform there is one column less
    assert table(text)[7:] == [
        ["method", "transfer", "minus the best"],
        ["---", "---", "---:"],
        ["pfec", "init", "−1.00 ± 0.58 (n = 3)"],
        ["paired", "init", "−1.00 ± 0.06 (n = 3, clear)"],
        ["far", "init", "−19.00 ± 0.00 (n = 3, clear)"],
    ]


def test_differences_are_over_the_seeds_that_both_have() -> None:
    best, other = {0: 0.9, 1: 0.8, 2: 0.85}, {1: 0.79, 2: 0.82, 7: 0.1}
    # 1 and 3 points: the mean 2, the std the root of 2, the error 1
    expected = {"points": 2.0, "standard_error": 1.0, "n": 2, "clear": False}
    assert paired_difference(best, other) == pytest.approx(expected)
    assert paired_difference({0: 0.9}, {1: 0.8}) is None
    alone = paired_difference({0: 0.9}, {0: 0.8})
    assert alone == pytest.approx({"points": 10.0, "standard_error": None, "n": 1, "clear": False})
    # 2, 3 and 4 points: 3 ± 0.577
    clear = paired_difference({0: 0.02, 1: 0.03, 2: 0.04}, dict.fromkeys(range(3), 0.0))
    assert clear == pytest.approx({"points": 3.0, "standard_error": 3**-0.5, "n": 3, "clear": True})


def test_the_differences_of_all_entries() -> None:
    rows = [
        *seeds("tas", 0.80, 0.82),
        *seeds("uniform", 0.79, 0.79),
        *seeds("uniform", 0.70, 0.71, transfer="kd"),
        *seeds("pfec", 0.72, 0.72, transfer="kd"),
        open_run("cp", "failed", "x"),
    ]
    found = differences(compared_entries(rows, about()))
    points = {
        (d["method"], d["transfer"], d["versus"]): (d["points"], d["standard_error"], d["clear"])
        for d in found
    }
    assert points == {
        ("tas", "init", "uniform"): pytest.approx((2.0, 1.0, False)),
        ("uniform", "init", "best"): pytest.approx((-2.0, 1.0, False)),
        ("uniform", "kd", "best"): pytest.approx((-10.5, 0.5, True)),
        ("pfec", "kd", "best"): pytest.approx((-9.0, 1.0, True)),
        ("pfec", "kd", "uniform"): pytest.approx((1.5, 0.5, True)),
    }
    assert {d["budget"] for d in found} == {"0.5"}
    part = read(rows).by_id("results")
    assert [h.text for h in part.all("h3")] == ["Differences, seed by seed"]
    cells = [[cell.text for cell in line.all("td")] for line in part.all("tr")]
    assert ["pfec", "kd", "−9.00 ± 1.00 (n = 2, clear)", "+1.50 ± 0.50 (n = 2, clear)"] in cells


def test_a_far_one_with_a_wide_spread_takes_the_win_too() -> None:
    rows = [
        *seeds("tas", 0.80, 0.801),
        *seeds("pfec", 0.79, 0.791),
        *seeds("wide", 0.70, 0.85),
    ]
    assert "the difference from wide is within two standard errors: there is no" in lead(rows)


def test_two_that_are_equal() -> None:
    rows = [*seeds("tas", 0.80, 0.82), *seeds("pfec", 0.82, 0.80)]
    words = "pfec has the same, and seed by seed the difference from pfec is within two standard"
    assert f" {words} errors: there is no clear winner." in lead(rows)
    single = lead([run("tas", 0.8), run("pfec", 0.8)])
    assert " pfec has the same; with fewer than two common seeds the difference has no" in single


def test_one_seed_is_no_proof() -> None:
    text = comparison_markdown([run("tas", 0.8), *seeds("pfec", 0.70, 0.71)], about())
    assert "tas has the highest accuracy: 80.00% (n = 1)" in text
    assert (
        "by 9.50 points; with fewer than two common seeds the difference has no standard error."
        in text
    )
    assert "winner" not in text
    cells = {row[0]: row[2] for row in table(text)[:5]}
    assert cells["tas"] == "80.00% (n = 1) †"
    assert cells["pfec"] == "70.50% ± 0.71 (n = 2)"
    assert "\n† a single run" in text
    assert "| pfec | init | −10.00 (n = 1) |" in text


def test_a_given_network_may_have_seen_the_held_out_images() -> None:
    told = "The unpruned network was given, not trained here: the held-out images may have been"
    rows = [run("tas", 0.8)]
    assert told in comparison_markdown(rows, about(given=True))
    assert told not in comparison_markdown(rows, about(given=False))
    notes = [note.text for note in read(rows, given=True).by_id("results").all("p", "note")]
    assert any(note.startswith(told) for note in notes)


def test_costs_that_are_measured_or_outside_the_band() -> None:
    rows = [
        *seeds("lccl", 0.80, 0.80, measured=True, macs=11000000, cost=5100000),
        run("tas", 0.85, 0, cost=5250001),
        run("tas", 0.85, 1, cost=4900000),
    ]
    text = comparison_markdown(rows, about())
    cells = {row[0]: (row[2], row[4]) for row in table(text)[:5]}
    assert cells["lccl"] == ("80.00% ± 0.00 (n = 2)", "5.10M (51.0%) ‡")
    assert cells["tas"] == ("85.00% ± 0.00 (n = 2) §", "5.00M (50.0%)")
    assert "3.00 points above the unpruned network. Not all of its runs are inside the" in text
    assert "\n‡ measured on held-out images" in text
    assert (
        "\n§ at least one run is outside the band of its budget (± 5%), because its method is too "
        "coarse for that: it is compared at another cost.\n" in text
    )
    narrow = {"metric": "macs", "value": 5e6, "low": 4975000, "high": 5025000}
    assert "budget (± 0.5%), bec" in comparison_markdown(rows, about(targets={"0.5": narrow}))


def test_budgets_and_transfers_are_told_apart() -> None:
    rows = [
        *seeds("tas", 0.80, 0.81, transfer="kd"),
        *seeds("tas", 0.70, 0.71, transfer="none"),
        *seeds("pfec", 0.72, 0.73, transfer="none"),
        *seeds("tas", 0.60, 0.61, transfer="kd", budget="0.3"),
    ]
    smaller = {"metric": "macs", "value": 3e6, "low": 4750000, "high": 5250000}
    targets = {"0.3": smaller, **about()["targets"]}
    text = comparison_markdown(rows, about(kind="sweep", command="", targets=targets))
    assert text.startswith("# resnet20 on digits: budgets compared\n\nAll 8 runs are done.\n\n- At")
    assert (
        "- At a budget of 0.3 (3.00M MACs), tas reaches 60.50% ± 0.71 (n = 2), 21.50 points" in text
    )
    assert "tas (kd) has the highest mean accuracy" in text
    assert "It leads pfec (none) by 8.00 points" in text
    assert "The highest means by transfer are kd: tas 80.50%; none: pfec 72.50%." in text
    assert [row[:3] for row in table(text)[2:7]] == [
        ["unpruned", "–", "–"],
        ["tas", "kd", "0.3"],
        ["tas", "kd", "0.5"],
        ["pfec", "none", "0.5"],
        ["tas", "none", "0.5"],
    ]
    assert "Made from Python." in text
    page = read(rows, kind="sweep", targets=targets)
    assert page.all("p", "over")[0].text == "A sweep over budgets"
    assert len(page.all("header")[0].all("li")) == 2
    names = [row.all("span")[0].text for row in page.all("div", "time")]
    assert names == ["tas (kd), 0.3", "tas (kd), 0.5", "pfec (none), 0.5", "tas (none), 0.5"]


# the page

BAD = "<img src=x onerror=alert(1)> & \"'"


def test_budgets_of_one_search_say_what_their_passes_and_seconds_are() -> None:
    counted = {"0.3": 4.0, "0.5": 3.625, "0.7": 3.375}
    rows = [run("tas", 0.8, budget=b, train_passes=n) for b, n in counted.items()]
    facts = {"passes": None, "epochs": 4, "kind": "sweep"}
    told = "The budgets share one search: the passes of each include those of the search down to it"
    trained = "Every small network was trained for 3.4 to 4 passes over the training images: its 4"
    for shared in (True, False):
        own = [row | {"shared_search": shared} for row in rows]
        for text in (
            comparison_markdown(own, about(**facts)),
            comparison_page(own, about(**facts)),
        ):
            assert (told in text) == shared
            assert trained in text
    whole = "Every small network was trained for 4 epochs. Measured"
    for found in ({"train_passes": 4}, {}):  # older comparisons do not know it
        assert whole in comparison_markdown([run("tas", 0.8, **found)], about(**facts))


def test_latencies_say_that_they_are_not_as_measured() -> None:
    told = "the report of a run has the times as they were measured"
    assert told in comparison_markdown([run("tas", 0.8)], about())
    assert told not in comparison_markdown([run("tas", 0.8, latency_ms=None)], about())


def test_every_method_is_on_a_page_that_needs_nothing_else() -> None:
    rows = [run(name, 0.7 + i / 100) for i, name in enumerate(METHODS)]
    text = comparison_page(rows, about())
    assert re.findall(r"https?://", text) == []
    assert re.findall(r"<(?:script|link|img|iframe)|@import|url\(", text) == []
    page = parse(text)
    lines = page.by_id("results").all("table")[0].all("tr")[1:]
    assert [line.all("td")[0].text for line in lines] == ["unpruned", *METHODS[::-1]]
    for key in ("by-macs", "by-latency"):
        keys = [mark.text for mark in page.by_id(key).all("span", "mark")]
        assert keys == METHODS
    parts = [link.attributes["href"][1:] for link in page.all("nav")[0].all("a")]
    assert [page.by_id(part).name for part in parts] == ["section"] * 4
    ids = {node.attributes["id"] for node in page.walk() if "id" in node.attributes}
    named = [node for node in page.all("svg") if "aria-labelledby" in node.attributes]
    assert len(named) == 2
    for picture in named:
        assert set(picture.attributes["aria-labelledby"].split()) <= ids


def test_text_from_outside_stays_text() -> None:
    rows = [run(BAD, 0.8, transfer=BAD), open_run(BAD, "failed", f"{BAD}\n  line 2", budget=BAD)]
    machine = {BAD: BAD, "cpu": BAD, "threads": 1}
    page = read(rows, title=BAD, command=BAD, environment=machine, metric=BAD)
    assert page.all("img") == []
    assert page.all("h1")[0].text == BAD
    assert page.all("pre")[0].text == BAD
    (item,) = page.by_id("failures").all("li")
    assert item.text == (f"{BAD}, budget {BAD}, transfer init, seed 0: {BAD}\n  line 2")
    assert "<img" not in comparison_markdown(rows, about(title=BAD, environment=machine))


def test_failures_are_told_once_and_in_full() -> None:
    reason = "the search found no shape inside the band " * 8
    rows = [run("tas", 0.8)] + [open_run("amc", "failed", reason, seed=i) for i in range(3)]
    page = read([*rows, open_run("amc", "failed", None, seed=3), open_run("cp", "running")])
    items = [item.text for item in page.by_id("failures").all("li")]
    assert items == [
        f"amc, budget 0.5, transfer init, seeds 0, 1, 2: {reason}",
        "amc, budget 0.5, transfer init, seed 3: no reason given",
    ]
    states = [cell.text for cell in page.by_id("results").all("td", "state")]
    assert states == ["running", "failed: the search found no shape inside the band the…"]
    for line in page.by_id("results").all("tr"):
        cells = line.all("td") or line.all("th")
        assert sum(int(cell.attributes.get("colspan", 1)) for cell in cells) == 10


def scale(picture: Node, axis: str, unit: float) -> tuple[float, float]:
    """Slope and offset of an axis, from its first and its last tick."""
    anchor, kind, place = ("middle", "axis", "x1") if axis == "x" else ("end", "grid", "y1")
    words = [t.text for t in picture.all("text", "tick") if t.attributes["text-anchor"] == anchor]
    marks = [line.number(place) for line in picture.all("line", kind)]
    # the last of either is not a tick: the name of the axis, and the floor
    words, marks = (words[:-1], marks[:-1]) if axis == "x" else (words, marks)
    assert len(words) == len(marks) > 1
    values = [float(word.rstrip("M%")) * unit for word in words]
    slope = (marks[-1] - marks[0]) / (values[-1] - values[0])
    return slope, marks[0] - slope * values[0]


def places(picture: Node) -> dict[str, tuple[float, float]]:
    """Where the marker of each point is."""
    found = {}
    for point in picture.all("g", "point"):
        (marker,) = point.all("path")
        x, y = re.findall(r"-?[\d.]+", marker.attributes["transform"])
        found[point.all("title")[0].text] = (float(x), float(y))
    return found


def test_the_points_are_where_the_axes_say() -> None:
    rows = [
        *seeds("tas", 0.80, 0.82, macs=4900000, latency_ms=1.5),
        *seeds("tas", 0.78, 0.79, macs=5100000, latency_ms=1.75, transfer="kd"),
        run("pfec", 0.75, macs=5200000, latency_ms=1.0),
    ]
    page = read(rows)
    expected = {
        "tas (init)": (4900000, 1.5, 0.81, 0.02**0.5 / 10),
        "tas (kd)": (5100000, 1.75, 0.785, 0.005**0.5 / 10),
        "pfec (init)": (5200000, 1.0, 0.75, None),
    }
    for column, (key, unit) in enumerate((("by-macs", 1e6), ("by-latency", 1.0))):
        picture = page.by_id(key)
        (across, left), (up, bottom) = scale(picture, "x", unit), scale(picture, "y", 0.01)
        found = {words.partition(",")[0]: place for words, place in places(picture).items()}
        for name, numbers in expected.items():
            place = (left + across * numbers[column], bottom + up * numbers[2])
            assert found[name] == pytest.approx(place, abs=0.05)
        bars = {point.all("title")[0].text.partition(",")[0]: point for point in picture.all("g")}
        assert bars["pfec (init)"].all("line") == []
        for name in ("tas (init)", "tas (kd)"):
            x, y = found[name]
            (bar,) = bars[name].all("line", "spread")
            assert (bar.number("x1"), bar.number("x2")) == (x, x)
            half = -up * (expected[name][3] or 0)
            assert [bar.number("y1"), bar.number("y2")] == pytest.approx(
                [y - half, y + half], abs=0.05
            )
        (line,) = picture.all("polyline", "other")
        assert [y for _, y in spots(line)] == pytest.approx([bottom + up * 0.82] * 2, abs=0.05)
    (band,) = page.by_id("by-macs").all("rect", "band")
    (across, left) = scale(page.by_id("by-macs"), "x", 1e6)
    assert band.number("x") == pytest.approx(left + across * 4750000, abs=0.05)
    assert band.number("width") == pytest.approx(across * 500000, abs=0.05)
    # twice as many MACs as all others: it would push them together; its latency would not
    assert page.by_id("by-macs").all("path", "cross") == []
    assert len(page.by_id("by-latency").all("path", "cross")) == 1


def test_colours_are_of_methods_and_markers_of_transfers() -> None:
    rows = [run(m, 0.8, transfer=t) for m in ("a", "b") for t in ("none", "init", "kd")]
    picture = read(rows).by_id("by-macs")
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for point in picture.all("g", "point"):
        name, transfer = re.findall(r"(\w) \((\w+)\)", point.all("title")[0].text)[0]
        found[name, transfer] = (point.attributes["class"], point.all("path")[0].attributes["d"])
    assert {key[0]: colour for key, (colour, _) in found.items()} == {
        "a": "point m0",
        "b": "point m1",
    }
    for transfer in ("none", "init", "kd"):
        assert found["a", transfer][1] == found["b", transfer][1]
    assert len({marker for _, marker in found.values()}) == 3
    keys = picture.all("span", "mark")
    assert [key.text for key in keys] == ["a", "b", "none", "init", "kd"]
    # at one budget there is nothing to join, and each point has its name
    assert picture.all("polyline", "trace") == []
    for key, transfer in zip(keys[2:], ("none", "init", "kd"), strict=True):
        assert key.all("path")[0].attributes["d"] == found["a", transfer][1]


def test_a_sweep_is_joined_by_lines() -> None:
    rows = [
        run(method, 0.7 + float(budget) / 10, budget=budget, macs=int(1e7 * float(budget)))
        for method in ("tas", "pfec")
        for budget in ("0.7", "0.3", "0.5")
    ]
    picture = read(rows, kind="sweep", targets={}).by_id("by-macs")
    lines = picture.all("polyline", "trace")
    assert [line.attributes["class"] for line in lines] == ["trace m0", "trace m1"]
    (across, left), (up, bottom) = scale(picture, "x", 1e6), scale(picture, "y", 0.01)
    for line in lines:
        for spot, budget in zip(spots(line), (0.3, 0.5, 0.7), strict=True):
            place = (left + across * 1e7 * budget, bottom + up * (0.7 + budget / 10))
            assert spot == pytest.approx(place, abs=0.05)
    # one name for a line, not for each point
    assert [name.text for name in picture.all("text", "name")] == ["tas", "pfec"]
    assert picture.all("rect", "band") == []


def test_two_points_of_one_run_each_are_no_line() -> None:
    rows = [
        run("tas", 0.7 + float(budget) / 10, budget=budget, macs=int(1e7 * float(budget)))
        for budget in ("0.3", "0.5")
    ]
    picture = read(rows, kind="sweep", targets={}).by_id("by-macs")
    assert picture.all("polyline", "trace") == []
    assert [name.text for name in picture.all("text", "name")] == ["tas", "tas"]
    twice = [
        {**row, "seed": seed, "accuracy": row["accuracy"] + 0.01 * seed}
        for row in rows
        for seed in (0, 1)
    ]
    picture = read(twice, kind="sweep", targets={}).by_id("by-macs")
    assert len(picture.all("polyline", "trace")) == 1


def test_no_accuracy_is_above_100_percent() -> None:
    point = Point(label="tas", tooltip="", colour=0, marker="", x=1e6, y=0.93, std=None)
    assert ScatterPlot([point], None).y_axis.high == 1.0


def test_names_do_not_cover_names_or_points() -> None:
    draw = random.Random(0)
    frame = (56.0, 12.0, 790.0, 382.0)
    points = [
        (name, draw.uniform(300, 600), draw.uniform(100, 300)) for name in METHODS for _ in range(3)
    ]
    points += [("in a corner", frame[i], frame[j]) for i in (0, 2) for j in (1, 3)]
    taken = [label_placement.marker_box(x, y) for _, x, y in points]
    found = label_placement.place_labels(points, taken, frame)
    assert sum(one is not None for one in found) > 30
    boxes = list(taken)
    for one, (name, x, y) in zip(found, points, strict=True):
        if one is None:
            continue
        box = (one.x, one.y - 10.5, one.x + label_placement.LETTER_WIDTH * len(name), one.y + 2.5)
        assert frame[0] <= box[0] < box[2] <= frame[2]
        assert frame[1] <= box[1] < box[3] <= frame[3]
        for other in boxes:
            apart = box[2] <= other[0] + 1e-6 or other[2] <= box[0] + 1e-6
            assert apart or box[3] <= other[1] + 1e-6 or other[3] <= box[1] + 1e-6
        boxes.append(box)
        # away from its point, a line leads to it
        near = max(box[0] - x, x - box[2], box[1] - y, y - box[3])
        assert (one.leader is not None) == (near > 10)


def test_the_times_are_told_apart() -> None:
    rows = [
        run("tas", 0.8, search_seconds=300.0, train_seconds=100.0),
        run("pfec", 0.7, search_seconds=0.0, train_seconds=200.0),
        open_run("amc", "failed", "x"),
    ]
    page = read(rows)
    bars = page.all("div", "time")
    assert [bar.all("span")[0].text for bar in bars] == ["tas", "pfec"]
    searched = [width(bar.all("span", "searched")[0]) for bar in bars]
    trained = [width(bar.all("span", "trained")[0]) for bar in bars]
    assert (searched, trained) == ([75, 0], [25, 50])
    assert [bar.all("span", "numbers")[0].text for bar in bars] == [
        "5.0 min + 100.0 s",
        "0.0 s + 3.3 min",
    ]
    assert "unpruned network was trained in 5.0 min" in page.by_id("time").text


def test_how_it_was_run() -> None:
    rows = [*seeds("tas", 0.8, 0.81), run("pfec", 0.7), run("pfec", 0.7, transfer="kd")]
    part = read(rows, jobs=2).by_id("setup")
    pairs = [(row.all("dt")[0].text, row.all("dd")[0].text) for row in part.all("div")]
    assert pairs == [
        ("methods", "tas, pfec"),
        ("transfer", "init, kd"),
        ("seeds", "0, 1"),
        ("budget", "0.5 (5.00M MACs)"),
        ("metric", "MACs"),
        ("passes", "45"),
        # four trainings of 180 s, three searches of 12.5 s: one serves both transfers
        ("time of all runs", "12.6 min"),
        ("runs at the same time", "2"),
        ("torch", "2.13.0"),
        ("cpu", "A processor"),
        ("threads", "2"),
    ]
    assert part.all("pre")[0].text == "tas compare --seeds 3"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "0 of 0 runs are done."),
        ([open_run("amc", "failed", "x")], "0 of 1 runs are done, 1 failed."),
        (
            [open_run("amc", "running"), open_run("amc", "waiting", seed=1)],
            "0 of 2 runs are done, 1 running, 1 waiting.",
        ),
    ],
)
def test_nothing_is_done(rows: list[dict[str, Any]], told: str) -> None:
    page = read(rows, teacher=None)
    assert page.all("p", "lead")[0].text == told
    for key in ("by-macs", "by-latency"):
        assert page.by_id(key).all("svg") == []
        assert page.by_id(key).all("p")[0].text == "No run has a number for this yet."
    assert page.all("figure") == [page.by_id("by-macs"), page.by_id("by-latency")]
    assert table(comparison_markdown(rows, about(teacher=None)))[2] == ["unpruned"] + ["–"] * 9


def test_a_run_without_latency_is_in_the_other_picture() -> None:
    teacher = about()["teacher"] | {"latency_ms": None}
    page = read([run("tas", 0.8, latency_ms=None), run("pfec", 0.7)], teacher=teacher)
    found = {key: len(page.by_id(key).all("g", "point")) for key in ("by-macs", "by-latency")}
    assert found == {"by-macs": 2, "by-latency": 1}
    assert [key.text for key in page.by_id("by-latency").all("span", "mark")] == ["pfec"]


@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_a_narrow_page_does_not_scroll_sideways(tmp_path: Path) -> None:
    long = "a_name_that_does_not_end_" * 6
    rows = [run(name, 0.8) for name in METHODS] + [open_run("x", "failed", long, budget=long)]
    facts = about(title=long, command=long, environment={long: long})
    measure = (
        "<script>const root = document.documentElement;"
        "root.title = root.scrollWidth - root.clientWidth;</script>"
    )
    path = tmp_path / "page.html"
    path.write_text(comparison_page(rows, facts) + measure, encoding="utf-8")
    page = browse(path, tmp_path / "profile")
    assert page.all("html")[0].attributes["title"] == "0"
