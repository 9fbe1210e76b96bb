"""The pictures and tables of a report: right numbers, and everything drawn."""

import json
import math
import os
from pathlib import Path

import pytest

from support.html_tree import Node, spots, width
from support.made_up_run import (
    KEPT_BLOCKS,
    SIZES,
    layer_record,
    layer_records,
    report,
    result_record,
    search_rows,
    softmax,
    write_run,
)
from transformable.report import write_report


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return report(tmp_path_factory.mktemp("page") / "run")


def test_the_files_and_the_path(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    before = set(os.listdir(folder))
    assert write_report(folder) == folder / "report.html"
    assert set(os.listdir(folder)) - before == {"report.html", "summary.md"}


def test_the_cards(page: Node) -> None:
    cards = {
        card.all("h3")[0].text: [p.text for p in card.all("p")[:2]]
        for card in page.all("section", "card")
    }
    assert cards == {
        "Accuracy": ["98.33% → 98.05%", "−0.28 points"],
        "MACs": ["10.13M → 5.10M", "−49.6%"],
        "Parameters": ["272.0k → 140.1k", "−48.5%"],
        "File size": ["1.11 MB → 580 kB", "−47.9%"],
        "Latency": ["1.92 ms → 1.41 ms", "−26.6%"],
    }
    note = page.all("section", "card")[0].all("p", "note")[0].text
    assert note == "Top-5 100.00% → 99.72%. 359 test images; one is 0.28 points."


def test_the_header(page: Node) -> None:
    assert page.all("h1")[0].text == "resnet14 on digits"
    assert page.all("p", "lead")[0].text == (
        "The budget of 5,065,029 MACs (50.0% of the unpruned network) is met: "
        "5,102,000 lies in the band of 4,811,778 to 5,318,280."
    )
    assert "gave up 3.18 nats" in page.by_id("search").all("p")[0].text
    parts = [link.attributes["href"][1:] for link in page.all("nav")[0].all("a")]
    assert [page.by_id(part).name for part in parts] == ["section"] * 6


def test_a_missed_budget_of_parameters(tmp_path: Path) -> None:
    target = {"metric": "params", "value": 100000.0, "low": 95000, "high": 105000}
    page = report(tmp_path / "run", target=target)
    assert "is missed: 140,123 lies outside the band" in page.all("p", "lead")[0].text
    assert page.by_id("cost").all("strong")[0].text == "Cost in parameters"
    assert "is missed: 140,123" in (tmp_path / "run" / "summary.md").read_text()


def test_a_network_below_the_band_misses_it_too(tmp_path: Path) -> None:
    target = {"metric": "macs", "value": 8e6, "low": 7600000, "high": 8400000}
    page = report(tmp_path / "run", target=target)
    assert "is missed: 5,102,000 lies outside the band" in page.all("p", "lead")[0].text


def test_every_layer_has_a_bar_of_its_width(page: Node) -> None:
    rows = page.all("div", "layer")
    layers = layer_records()
    assert [row.attributes["title"] for row in rows] == [layer["name"] for layer in layers]
    widest = {"stages.0": 16, "stages.1": 32}
    for row, layer in zip(rows, layers, strict=True):
        frame = widest.get(layer["stage"], layer["full"])
        track, fill = row.all("span", "track")[0], row.all("span", "fill")[0]
        assert width(track) == pytest.approx(100 * layer["full"] / frame, rel=1e-3)
        assert width(fill) == pytest.approx(100 * layer["kept"] / layer["full"], rel=1e-3)
        kept = f"{layer['kept']} / {layer['full']}" if layer["kept"] else f"{layer['full']}"
        assert row.all("span", "numbers")[0].text == kept
    assert rows[1].all("code")[0].text == "conv1"


def test_dropped_blocks_are_struck_out(page: Node) -> None:
    (block,) = page.all("div", "dropped")[:1]
    assert [b.all("h4")[0].text for b in page.all("div", "block") if "dropped" in kinds(b)] == [
        "block 2 dropped"
    ]
    assert [s.text for s in block.all("s")] == ["block 2", "conv1", "16", "conv2", "16"]
    assert [h.text for h in page.by_id("network").all("h3")] == [
        "before the stages",
        "stages.0 2 of 3 blocks",
        "stages.1 3 of 3 blocks",
        "after the stages",
    ]


def test_layers_that_keep_their_width_are_told(page: Node, tmp_path: Path) -> None:
    words = "head.0 and 2 more keep their width: 'head.1' mixes <channels>"
    assert words in [note.text for note in page.by_id("network").all("p", "note")]
    write_report(write_run(tmp_path / "run"))
    assert "head.0 and 2 more keep their width" in (tmp_path / "run" / "summary.md").read_text()


def test_many_blocks_get_the_whole_width(tmp_path: Path) -> None:
    for count, kind in ((4, "stage"), (5, "stage wide")):
        names = [f"stages.0.{block}.conv1" for block in range(count)]
        layers = [layer_record(n, "stages.0", i, 16, 11) for i, n in enumerate(names)]
        shape = {"widths": dict.fromkeys(names, 11), "depths": {"stages.0": 3}}
        page = report(tmp_path / f"{count}", layers=layers, shape=shape)
        assert page.by_id("network").all("section", "stage")[0].attributes["class"] == kind


def kinds(node: Node) -> list[str]:
    return node.attributes["class"].split()


def test_the_skyline_has_both_costs_of_every_layer(page: Node) -> None:
    picture = page.by_id("skyline")
    layers = layer_records()
    highest = max(layer["macs_before"] for layer in layers)
    for which in ("before", "after"):
        bars = picture.all("rect", which)
        heights = [100 * layer[f"macs_{which}"] / highest for layer in layers]
        assert [bar.number("height") for bar in bars] == pytest.approx(heights, abs=0.01)
        ends = [bar.number("y") + bar.number("height") for bar in bars]
        assert ends == pytest.approx([100] * len(layers), abs=0.02)


def vertical(chart: Node) -> tuple[float, float]:
    """Slope and offset of the vertical axis, from its lowest and its highest tick."""
    labels = [text for text in chart.all("text") if text.attributes["text-anchor"] == "end"]
    lines = chart.all("line", "grid")
    (low, high) = (float(label.text.rstrip("M%k")) for label in (labels[0], labels[-1]))
    (bottom, top) = (lines[i].number("y1") for i in (0, -1))
    slope = (top - bottom) / (high - low)
    return slope, bottom - slope * low


def test_the_band_and_the_lines_stand_where_the_axis_says(page: Node) -> None:
    chart = page.by_id("cost")
    slope, offset = vertical(chart)
    (band,) = chart.all("rect", "band")
    assert band.number("y") == pytest.approx(5.318280 * slope + offset, abs=0.1)
    end = band.number("y") + band.number("height")
    assert end == pytest.approx(4.811778 * slope + offset, abs=0.1)
    for kind, name in (("main", "derived"), ("other", "expected")):
        (line,) = chart.all("polyline", kind)
        heights = [row[name] / 1e6 * slope + offset for row in search_rows(12)]
        assert [y for _, y in spots(line)] == pytest.approx(heights, abs=0.1)
    assert [key.text for key in chart.all("span", "key")] == ["F 5.23M", "E 5.09M", "budget"]


def test_the_curves(page: Node) -> None:
    ends = {
        chart: [key.text for key in page.by_id(chart).all("span", "key")]
        for chart in ("discrepancy", "tau", "loss", "accuracy", "validation")
    }
    assert ends == {
        "discrepancy": ["discrepancy 0.600"],
        "tau": ["τ 0.100"],
        "loss": ["teacher 0.0903", "student 0.0903"],
        "accuracy": ["teacher 97.53%", "student 97.03%"],
        "validation": ["teacher 97.72%", "student 97.22%"],
    }
    # the first epoch was not validated
    lines = page.by_id("validation").all("polyline")
    assert [len(spots(line)) for line in lines] == [7, 9]
    assert lines[1].attributes["class"] == "line main"


def test_the_heat_map_of_the_first_layer(page: Node) -> None:
    picture = page.by_id("map")
    cells = picture.all("rect", "cell")
    assert len(cells) == 8 * 12
    lines = softmax([-4 * abs(s - 11) / s for s in SIZES[16]])
    # opacity is the root of the probability
    shown = [cell.number("fill-opacity") ** 2 for cell in cells[11::12]]
    assert shown == pytest.approx(lines[::-1], abs=2e-3)
    (kept,) = picture.all("rect", "kept")
    row = SIZES[16][::-1].index(11)
    assert kept.number("y") == cells[12 * row].number("y")
    assert kept.number("height") == cells[12 * row].number("height")
    assert [text.text for text in picture.all("text", "kept")] == [
        "11",
        f"{100 * lines[4]:.1f}% kept",
    ]
    assert picture.all("title")[5].text == f"epoch 5, 16 channels: {chance_at(5):.1f}%"


def chance_at(epoch: int) -> float:
    return 100 * softmax([-4 * epoch / 12 * abs(s - 11) / s for s in SIZES[16]])[-1]


def test_all_distributions_are_in_the_page(page: Node) -> None:
    data = json.loads(page.by_id("map-data").text)
    maps = {one["name"]: one for one in data["maps"]}
    assert list(maps) == [layer["name"] for layer in layer_records()[:-1]] + list(KEPT_BLOCKS)
    assert maps["stages.0"]["sizes"] == [3, 2, 1]
    assert maps["stages.0"]["kept"] == 1
    assert maps["stages.0"]["note"] == "Kept: 2 blocks out of 3."
    dropped = "Kept: 13 channels out of 16, but its block was dropped."
    assert maps["stages.0.2.conv1"]["note"] == dropped
    for one in maps.values():
        for column in zip(*one["probabilities"], strict=True):
            assert sum(column) == pytest.approx(1000, abs=4)
    options = page.by_id("map-select").all("option")
    assert [option.attributes["value"] for option in options] == [str(i) for i in range(len(maps))]
    assert options[-1].text == "stages.1 (blocks)"


def test_every_picture_is_drawn_and_named(page: Node) -> None:
    pictures = page.all("svg")
    assert len(pictures) == 9
    ids = {node.attributes["id"] for node in page.walk() if "id" in node.attributes}
    for picture in pictures:
        assert len(picture.all("rect")) + len(picture.all("polyline")) > 0
        labels = picture.attributes.get("aria-labelledby", "").split()
        assert set(labels) <= ids
        assert labels or picture.attributes["aria-label"]
    for node in page.walk():
        for name in ("x", "y", "width", "height", "cx", "cy", "x1", "y1"):
            if node.name in {"rect", "line", "circle"} and name in node.attributes:
                assert math.isfinite(node.number(name))
                assert node.number(name) >= 0


def test_the_speed_table(page: Node) -> None:
    part = page.by_id("speed")
    assert part.all("p")[0].text == result_record()["faster"]
    rows = [[cell.text for cell in row.all("td")] for row in part.all("tr")[1:]]
    assert rows == [
        ["PyTorch", "1", "1.92 (1.88 – 2.02)", "1.41 (1.38 – 1.48)", "1.36×"],
        ["PyTorch", "64", "41.2 (40.4 – 43.3)", "25.0 (24.5 – 26.3)", "1.65×"],
        ["onnxruntime", "1", "0.612 (0.600 – 0.643)", "0.640 (0.627 – 0.672)", "0.96×"],
    ]


def test_the_table_by_layer(page: Node) -> None:
    rows = [[cell.text for cell in row.all("td")] for row in page.by_id("layers").all("tr")[1:]]
    sizes = ["conv 3×3", "32×32"]
    stem = ["36,864", "25,344", "−31.2%", "144", "99"]
    assert rows[0] == ["stem.0", "16 → 11", *sizes, *stem]
    gone = ["36,864", "0", "−100.0%", "144", "0"]
    assert rows[5] == ["stages.0.2.conv1", "16 → dropped", *sizes, *gone]
    assert rows[-2][:4] == ["head", "10 → 10", "linear", "1"]
    whole = ["10,130,058", "5,102,000", "−49.6%", "271,994", "140,123"]
    assert rows[-1] == ["whole network", "", "", "", *whole]
    assert len(rows) == 14 + 1


def test_the_setup(page: Node) -> None:
    part = page.by_id("setup")
    assert part.all("pre")[0].text == "tas prune --budget 0.5"
    pairs = [(row.all("dt")[0].text, row.all("dd")[0].text) for row in part.all("div")]
    for pair in (
        ("seed", "7"),
        ("teacher", "trained here"),
        ("time", "73.9 s (teacher 8.8 s, search 44.1 s, student 21.0 s)"),
        ("torch", "2.13.0"),
        ("cpu", "A processor"),
        ("budget", "0.5"),
        ("sort", "true"),
        ("ratios", "[0.3, 0.5, 1.0]"),
    ):
        assert pair in pairs
