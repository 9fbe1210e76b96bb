"""What a report is made from, and what it does with unusual or damaged folders."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.html_tree import parse, spots, width
from support.made_up_run import (
    layer_record,
    layer_records,
    report,
    result_record,
    search_rows,
    training_rows,
    without_stages,
    write_rows,
    write_run,
)
from transformable.report import write_report
from transformable.report.axes import Axis


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    text = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"\b(src|@import|url\()", text)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1"/>' in text
    assert "prefers-color-scheme: dark" in text


BAD = "<b>&\"'</script><script>alert(1)</script>"


def test_text_from_the_folder_is_never_markup(tmp_path: Path) -> None:
    shape = {"widths": {f"features.{BAD}": 11}, "depths": {}}
    layers = [layer_record(f"features.{BAD}", None, None, 16, 11, kind="conv")]
    environment = {"cpu": BAD, BAD: "x"}
    folder = write_run(
        tmp_path / "run",
        model='<b>&"',
        data=BAD,
        command=BAD,
        faster=BAD,
        teacher=BAD,
        layers=layers,
        shape=shape,
        environment=environment,
        residual=BAD,
    )
    with (folder / "config.toml").open("a") as file:
        file.write(f"out = {json.dumps(BAD)}\n")
    text = write_report(folder).read_text(encoding="utf-8")
    page = parse(text)
    assert "<b>&" not in text
    assert "alert(1)</script>" not in text
    assert len(page.all("script")) == 2
    assert page.all("h1")[0].text == f'<b>&" on {BAD}'
    assert page.all("title")[0].text == f'<b>&" on {BAD}, pruned'
    assert page.all("pre")[0].text == BAD
    data = json.loads(page.by_id("map-data").text)
    assert data["maps"][0]["name"] == f"features.{BAD}"


def test_stages_too_are_escaped(tmp_path: Path) -> None:
    layers = [layer_record("a.0.conv", BAD, 0, 16, 11)]
    shape = {"widths": {"a.0.conv": 11}, "depths": {BAD: 1}}
    page = report(tmp_path / "run", layers=layers, shape=shape)
    assert page.by_id("network").all("h3")[0].text == f"{BAD} 1 of 1 blocks"


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        write_report(write_run(tmp_path / name))
        texts.append([(tmp_path / name / f).read_bytes() for f in ("report.html", "summary.md")])
    again = write_report(tmp_path / "two").read_bytes()
    assert texts[0] == texts[1]
    assert again == texts[0][0]


def test_a_given_teacher_has_no_curve(tmp_path: Path) -> None:
    page = report(tmp_path / "run", teacher="runs/<teacher>", seconds={"search": 4.0})
    part = page.by_id("training")
    assert "The teacher was given (runs/<teacher>)" in part.text
    assert [len(svg.all("polyline")) for svg in part.all("svg")] == [1, 1, 1]
    assert [key.text for key in page.by_id("loss").all("span", "key")] == ["student 0.0903"]


def test_a_given_teacher_may_have_seen_the_held_out_images(tmp_path: Path) -> None:
    told = "The unpruned network was given, not trained here: the held-out images may have been"
    page = report(tmp_path / "given", teacher="runs/mine", trained=True)
    assert told in page.by_id("training").text
    assert told in summary_of(tmp_path / "given")
    page = report(tmp_path / "own", trained=False)
    assert told not in page.by_id("training").text
    assert told not in summary_of(tmp_path / "own")


def test_the_passes(tmp_path: Path) -> None:
    page = report(tmp_path / "run", passes={"search": 15.333, "student": 30})
    pairs = [(d.all("dt")[0].text, d.all("dd")[0].text) for d in page.by_id("setup").all("div")]
    assert ("passes over the training images", "45.3 (search 15.3, student 30)") in pairs
    assert (
        "Passes over the training images, forward and backward: 45.3 (search 15.3, student 30).\n"
        in summary_of(tmp_path / "run")
    )
    # an older run did not count them
    page = report(tmp_path / "older")
    pairs = [(d.all("dt")[0].text, d.all("dd")[0].text) for d in page.by_id("setup").all("div")]
    assert ("passes over the training images", "–") in pairs
    assert "Passes" not in summary_of(tmp_path / "older")


def test_without_validation_images(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for name in ("teacher", "student"):
        rows = training_rows(3, 0.9)
        write_rows(folder / name / "metrics.csv", [{**r, "validation_accuracy": ""} for r in rows])
    part = parse(write_report(folder).read_text(encoding="utf-8")).by_id("training")
    assert len(part.all("svg")) == 2
    assert "Not recorded: no images were held out." in part.text


def test_a_training_that_diverged(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    rows = [{**row, "train_loss": "nan"} for row in training_rows(3, 0.9)]
    rows[0]["train_loss"] = "2.5"
    write_rows(folder / "student" / "metrics.csv", rows)
    page = parse(write_report(folder).read_text(encoding="utf-8"))
    assert [key.text for key in page.by_id("loss").all("span", "key")][1] == "student 2.50"


def test_a_search_of_one_epoch(tmp_path: Path) -> None:
    page = report(tmp_path / "run", epochs=1)
    chart = page.by_id("cost")
    # one epoch is no curve: only its numbers
    assert chart.all("svg") == []
    keys = [key.text for key in chart.all("span", "key")]
    assert keys == ["F 9.60M", "E 6.60M"]
    assert len(page.by_id("map").all("rect", "cell")) == 8


def test_an_axis_of_shares_ends_at_100_percent(tmp_path: Path) -> None:
    page = report(tmp_path)
    labels = [text.text for text in page.by_id("accuracy").all("text") if "%" in text.text]
    assert max(int(label.strip("%")) for label in labels) == 100
    assert Axis.around([0.93], 190, 10, most=1.0).high == 1.0
    assert Axis.around([0.2, 0.3], 190, 10, most=1.0).high == pytest.approx(0.305)


def test_what_has_grown_is_not_in_the_colour_of_what_fell(tmp_path: Path) -> None:
    after = {**result_record()["after"], "latency_ms": 2.5, "accuracy": 0.99}
    cards = report(tmp_path, after=after).all("section", "card")
    classes = {
        card.all("h3")[0].text: card.all("p", "change")[0].attributes["class"] for card in cards
    }
    assert classes == {
        "Accuracy": "change",
        "MACs": "change",
        "Parameters": "change",
        "File size": "change",
        "Latency": "change worse",
    }


@pytest.mark.parametrize(("classes", "shown"), [(4, False), (5, False), (6, True), (None, True)])
def test_top5_of_few_classes_is_left_out(tmp_path: Path, classes: int | None, shown: bool) -> None:
    card = report(tmp_path, num_classes=classes).all("section", "card")[0]
    assert ("Top-5" in card.text) == shown


def test_one_image_is_one_point(tmp_path: Path) -> None:
    card = report(tmp_path, n=100).all("section", "card")[0]
    assert "100 test images; one is 1 point." in card.text


def test_an_undecided_search_is_called_that(tmp_path: Path) -> None:
    assert "undecided" not in report(tmp_path / "decided").by_id("search").text
    folder = write_run(tmp_path / "undecided")
    rows = search_rows(12)
    rows[-1] |= {"discrepancy": 0.0008, "derived": 9_000_000, "expected": 8e6}
    write_rows(folder / "search" / "metrics.csv", rows)
    page = parse(write_report(folder).read_text(encoding="utf-8"))
    said = page.by_id("search").text
    assert "The search was undecided: on average the most probable size is only 0.0008 more" in said
    assert "The search ended" not in said
    assert "The search was undecided" in (folder / "summary.md").read_text(encoding="utf-8")
    # one that preferred sizes outside the band was decided
    rows[-1] |= {"discrepancy": 0.94}
    write_rows(folder / "search" / "metrics.csv", rows)
    said = parse(write_report(folder).read_text(encoding="utf-8")).by_id("search").text
    assert "The search ended outside the band: neither its most probable sizes nor" in said
    assert "undecided" not in said
    # the most probable sizes behind that epoch were inside it
    argmax = write_run(tmp_path / "argmax", derived_by="argmax")
    write_rows(argmax / "search" / "metrics.csv", rows)
    said = parse(write_report(argmax).read_text(encoding="utf-8")).by_id("search").text
    assert "The search ended" not in said


def test_an_accuracy_of_chance_is_remarked_on(tmp_path: Path) -> None:
    after = {**result_record()["after"], "accuracy": 4 / 24}
    page = report(tmp_path, after=after, n=24, num_classes=5)
    words = (
        "small network: 16.67% on 24 images is not clearly better than guessing one of 5 classes"
    )
    assert words in page.text
    assert "The unpruned network" not in page.text


def test_a_long_search_is_thinned_out(tmp_path: Path) -> None:
    page = report(tmp_path / "run", epochs=601)
    data = json.loads(page.by_id("map-data").text)
    assert len(data["epochs"]) == 120
    assert (data["epochs"][0], data["epochs"][-1]) == (1, 601)
    assert {len(row) for one in data["maps"] for row in one["probabilities"]} == {120}
    assert len(spots(page.by_id("cost").all("polyline")[0])) == 601


def test_a_network_without_stages(tmp_path: Path) -> None:
    page = report(tmp_path / "run", **without_stages())
    part = page.by_id("network")
    assert [h.text for h in part.all("h3")] == ["all layers"]
    assert [code.text for code in part.all("code")] == ["features.0", "features.3"]
    assert [width(track) for track in part.all("span", "track")] == [50, 100]
    assert [width(fill) for fill in part.all("span", "fill")] == [68.75, 59.38]
    assert "- widths 11/16, 19/32\n" in (tmp_path / "run" / "summary.md").read_text()


def test_a_layer_that_was_added(tmp_path: Path) -> None:
    added = layer_record("stages.0.0.shortcut", "stages.0", 0, 16, 14)
    added |= {"full": 0, "macs_before": 0, "params_before": 0}
    page = report(tmp_path / "run", layers=[*layer_records(), added])
    part = page.by_id("network")
    assert len(part.all("h3")) == 4
    row = part.all("div", "block")[0].all("div", "layer")[-1]
    assert row.text == "shortcut14 new"
    assert [width(row.all("span", kind)[0]) for kind in ("track", "fill")] == [87.5, 100]
    cells = [cell.text for cell in page.by_id("layers").all("tr")[-2].all("td")]
    assert cells[1::3] == ["new → 14", "0", "0"]
    assert cells[6] == "–"
    assert "widths 6/16, 11/16, 10/16, 14/16, 14 (new)\n" in summary_of(tmp_path / "run")


def summary_of(folder: Path) -> str:
    return (folder / "summary.md").read_text(encoding="utf-8")


def test_a_run_from_python_with_a_trained_network(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", command="")
    (folder / "teacher" / "metrics.csv").unlink()
    page = parse(write_report(folder).read_text(encoding="utf-8"))
    assert not page.all("pre")
    assert "The teacher was given, so only the student" in page.by_id("training").text
    assert "Made from Python. Accuracy" in summary_of(folder)


def test_what_was_not_measured(tmp_path: Path) -> None:
    result = result_record()
    nothing = {"top5": None, "bytes": None, "latency_ms": None}
    changes = {which: result[which] | nothing for which in ("before", "after")}
    page = report(tmp_path / "run", speed=[], **changes)
    cards = [[p.text for p in card.all("p")[:2]] for card in page.all("section", "card")]
    assert cards[3:] == [["– → –", "–"], ["– → –", "–"]]
    assert not page.by_id("speed").all("table")


def test_a_folder_without_a_search(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for path in (folder / "search").iterdir():
        path.unlink()
    page = parse(write_report(folder).read_text(encoding="utf-8"))
    assert "This folder has no record of a search." in page.by_id("search").text
    assert not page.all("script")


def test_the_summary(tmp_path: Path) -> None:
    write_report(write_run(tmp_path / "run", derived_by="argmax"))
    assert (tmp_path / "run" / "summary.md").read_text(encoding="utf-8") == SUMMARY


SUMMARY = """\
# resnet14 on digits, pruned

| | before | after | change |
|---|---:|---:|---:|
| accuracy | 98.33% | 98.05% | −0.28 points |
| MACs | 10,130,058 | 5,102,000 | −49.6% |
| params | 271,994 | 140,123 | −48.5% |
| file size | 1.11 MB | 580 kB | −47.9% |
| latency (batch 1) | 1.92 ms | 1.41 ms | −26.6% |

Made by `tas prune --budget 0.5`. Accuracy is on 359 test images.

The budget of 5,065,029 MACs (50.0% of the unpruned network) is met: \
5,102,000 lies in the band of 4,811,778 to 5,318,280.

In PyTorch the small network takes 1.36 times less time for one image; \
in onnxruntime it is not faster.

- other layers: widths 11/16, 10/10
- `stages.0`: 2 of 3 blocks, widths 6/16, 11/16, 10/16, 14/16
- `stages.1`: 3 of 3 blocks, widths 13/32, 22/32, 19/32, 29/32, 26/32, 13/32

head.0 and 2 more keep their width: 'head.1' mixes &lt;channels&gt;
"""


def refusal(folder: Path) -> str:
    with pytest.raises(ValueError, match=re.escape(str(folder))) as caught:
        write_report(folder)
    assert "\n" not in str(caught.value)
    assert not (folder / "report.html").exists()
    return str(caught.value)


FIX = "give the folder that a tas prune has written to its end (its --out)"


def test_folders_of_something_else_are_refused(tmp_path: Path) -> None:
    start = f"{tmp_path} is not the folder of a finished tas prune: "
    missing = tmp_path / "nowhere"
    assert refusal(missing).endswith(f"there is no such folder; {FIX}")
    assert refusal(tmp_path) == f"{start}it has no result.json; {FIX}"
    for text in ('{"accuracy": 0.5}', "[]"):
        (tmp_path / "result.json").write_text(text)
        assert refusal(tmp_path) == f'{start}its result.json has no "before"; {FIX}'


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for name, text, message in (
        ("student/metrics.csv", "epoch,train_loss\n1,x\n", "is not a metrics file of tas prune"),
        ("search/candidates.json", "{", "is not JSON"),
        ("search/distributions.jsonl", '{"epoch": 1}\n', "does not match candidates.json at 'stem"),
        ("config.toml", "=", "is not TOML"),
        ("result.json", '{"before": {}, "layers": []}', "has no 'shape'"),
        ("result.json", '{"before": {}, "layers": 3}', "is not that of a tas prune"),
        ("result.json", "{", "is not JSON"),
    ):
        good = (folder / name).read_text()
        (folder / name).write_text(text)
        said = refusal(folder)
        assert said.startswith(f"{folder / name} ")
        assert message in said
        (folder / name).write_text(good)


def test_a_report_needs_neither_torch_nor_a_terminal(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    code = (
        "import sys; from pathlib import Path; from transformable.report import write_report\n"
        "write_report(Path(sys.argv[1]))\n"
        "print({'torch', 'matplotlib', 'numpy', 'rich', 'tyro'} & set(sys.modules))"
    )
    run = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
