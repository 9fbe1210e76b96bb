"""The report in a real browser: its script runs, says no error, and draws what it is asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.browser import BROWSER, NAMES, browse
from support.html_tree import Node, parse
from support.made_up_run import write_run
from transformable.report import write_report

pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(NAMES)} is on PATH")


def drawn(picture: Node) -> list[tuple[str, dict[str, str], str]]:
    return [(node.name, node.attributes, node.text) for node in picture.walk()]


def test_the_script_draws_the_first_map_as_it_was(tmp_path: Path) -> None:
    path = write_report(write_run(tmp_path / "run"))
    page = browse(path, tmp_path / "profile")
    assert "hidden" not in page.by_id("map-choice").attributes
    assert page.by_id("readout").text == "Point at a cell, or tap it, to read it."
    # with and without scripts a reader sees the same
    before = parse(path.read_text(encoding="utf-8"))
    assert drawn(page.by_id("map")) == drawn(before.by_id("map"))
    for picture in page.all("svg"):
        assert picture.children


@pytest.mark.parametrize(
    ("mark", "name", "cells", "note"),
    [
        ("#map=stages.0", "stages.0", 3 * 12, "Kept: 2 blocks out of 3."),
        ("#map=%", "stem.0", 8 * 12, "Kept: 11 channels out of 16."),
    ],
)
def test_a_link_names_what_is_shown(
    tmp_path: Path, mark: str, name: str, cells: int, note: str
) -> None:
    page = browse(write_report(write_run(tmp_path / "run")), tmp_path / "profile", mark)
    assert page.by_id("map-name").text == name
    assert page.by_id("map-note").text == note
    assert len(page.by_id("map").all("rect", "cell")) == cells


# what a reader would do, and what comes of it, written where the test can read it
ACTIONS = """
<script>
const select = document.getElementById("map-select");
select.value = [...select.options].find((o) => o.textContent === "stages.1 (blocks)").value;
select.dispatchEvent(new Event("change"));
document.querySelector("#map .cell").dispatchEvent(new Event("click", {bubbles: true}));
const root = document.documentElement, made = document.createElement("pre");
made.id = "seen";
made.textContent = JSON.stringify({
  name: document.getElementById("map-name").textContent,
  readout: document.getElementById("readout").textContent,
  hash: location.hash,
  wide: root.scrollWidth - root.clientWidth,
});
document.body.append(made);
</script>
"""


def act(folder: Path, **changes: Any) -> dict[str, Any]:
    path = write_report(write_run(folder / "run", **changes))
    path.write_text(path.read_text(encoding="utf-8") + ACTIONS, encoding="utf-8")
    seen: dict[str, Any] = json.loads(browse(path, folder / "profile").by_id("seen").text)
    return seen


def test_another_map_is_chosen(tmp_path: Path) -> None:
    seen = act(tmp_path)
    assert seen["name"] == "stages.1"
    assert seen["hash"] == "#map=stages.1"
    assert seen["readout"].startswith("epoch 1, 3 blocks: ")


def test_a_narrow_page_does_not_scroll_sideways(tmp_path: Path) -> None:
    long = "a_name_that_does_not_end_" * 6
    command = f"tas prune --out {long}"
    environment = {"platform": long, long: "x"}
    seen = act(tmp_path, model=long, command=command, environment=environment)
    assert seen["wide"] == 0


def test_names_with_markup_stay_text(tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=console.error(1)>"
    page = browse(write_report(write_run(tmp_path / "run", model=bad)), tmp_path / "profile")
    assert page.all("img") == []
    assert page.all("h1")[0].text == f"{bad} on digits"
