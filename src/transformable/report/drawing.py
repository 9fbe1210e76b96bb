"""The network as a picture: what is kept of each layer, and what each layer costs."""

from collections.abc import Sequence

from .facts import Facts, Layer
from .markup import element, escape, join
from .wording import blocks

__all__ = ["network", "skyline"]

MOST_BLOCKS, MOST_STAGES = 4, 3
# the smallest part of a bar that can be seen
THINNEST = 1.5


def network(facts: Facts) -> str:
    """Stage by stage, a bar for each layer: the kept channels inside all channels."""
    groups = _groups(facts.layers)
    return element(
        "div",
        {"class": "network"},
        "\n",
        join([_group(at, groups) for at in range(len(groups))]),
    )


def _groups(layers: Sequence[Layer]) -> list[tuple[str | None, list[Layer]]]:
    """The stages, and the runs of layers outside of them, in order of execution.

    A layer that was added may stand at the end of the list; it belongs to its stage all the same.
    """
    groups: list[tuple[str | None, list[Layer]]] = []
    for layer in layers:
        known = [run for stage, run in groups[-1:] if stage == layer.stage]
        if layer.stage is not None:
            known = [run for stage, run in groups if stage == layer.stage]
        if known:
            known[0].append(layer)
        else:
            groups.append((layer.stage, [layer]))
    return groups


def _group(at: int, groups: list[tuple[str | None, list[Layer]]]) -> str:
    stage, layers = groups[at]
    longest = max(len(blocks(run)) for _, run in groups)
    stages = sum(name is not None for name, _ in groups)
    # boxes side by side would be of very different heights, or too many for a row
    wide = " wide" if longest > MOST_BLOCKS or stages > MOST_STAGES else ""
    widest = max(max(layer.full, layer.kept) for layer in layers)
    if stage is None:
        places = {0: "before the stages", len(groups) - 1: "after the stages"}
        heading = places.get(at, "between the stages") if len(groups) > 1 else "all layers"
        rows = (_row(layer, widest) for layer in layers)
        return element("section", {"class": "stage lone"}, element("h3", {}, heading), *rows)
    found = blocks(layers)
    kept = sum(not _dropped(block) for block in found.values())
    depth = element("span", {"class": "depth"}, f"{kept} of {len(found)} blocks")
    return element(
        "section",
        {"class": f"stage{wide}"},
        element("h3", {}, element("code", {}, escape(stage)), " ", depth),
        *(_block(number, block, widest) for number, block in found.items()),
    )


def _dropped(layers: list[Layer]) -> bool:
    return all(layer.dropped for layer in layers)


def _block(number: int | None, layers: list[Layer], widest: int) -> str:
    dropped = _dropped(layers)
    words = "" if number is None else f"block {number}"
    name = element("h4", {}, f"<s>{words}</s> dropped" if dropped else words)
    rows = (_row(layer, widest) for layer in layers)
    return element("div", {"class": "block dropped" if dropped else "block"}, name, *rows)


def _row(layer: Layer, widest: int) -> str:
    """Lengths are to scale within a stage, whose layers are alike."""
    name = escape(layer.short_name)
    frame = layer.full or layer.kept
    track = element(
        "span",
        {"class": "track", "style": f"width:{_share(frame, widest)}%"},
        element("span", {"class": "fill", "style": f"width:{_share(layer.kept, frame)}%"}),
    )
    numbers = (
        f"<b>{layer.kept}</b> / {layer.full}" if not layer.added else f"<b>{layer.kept}</b> new"
    )
    if layer.dropped:
        name, numbers = f"<s>{name}</s>", f"<s>{layer.full}</s>"
    return element(
        "div",
        {"class": "layer dropped" if layer.dropped else "layer", "title": layer.name},
        element("code", {}, name),
        element("span", {"class": "room"}, track),
        element("span", {"class": "numbers"}, numbers),
    )


def _share(part: int, whole: int) -> str:
    """
    >>> _share(11, 16), _share(0, 16), _share(1, 2048)
    ('68.75', '0', '1.5')
    """
    return f"{max(THINNEST, 100 * part / whole):.4g}" if part else "0"


def skyline(facts: Facts) -> str:
    """The MACs of each layer before and after, in order of execution.

    The picture has no text in it, so it may be stretched to any width; the names of the stages
    stand below it.
    """
    groups = _groups(facts.layers)
    layers = [layer for _, run in groups for layer in run]
    highest = max(max(layer.macs_before, layer.macs_after) for layer in layers) or 1
    columns = []
    for i, layer in enumerate(layers):
        for kind, macs in (("before", layer.macs_before), ("after", layer.macs_after)):
            height = 100 * macs / highest
            box = {"x": i + 0.1, "y": 100 - height, "width": 0.8, "height": height}
            columns.append(element("rect", {"class": kind, **box}))
    words = "MACs of each layer in order of execution, before and after."
    picture = element(
        "svg",
        {
            "viewBox": f"0 0 {len(layers)} 100",
            "preserveAspectRatio": "none",
            "role": "img",
            "aria-labelledby": "skyline-title",
        },
        element("title", {"id": "skyline-title"}, words),
        *columns,
    )
    names = [
        element("span", {"style": f"flex-grow:{len(run)}"}, escape(stage or ""))
        for stage, run in groups
    ]
    caption = element(
        "figcaption",
        {},
        element("strong", {}, "MACs by layer"),
        element("span", {"class": "key box"}, "before"),
        element("span", {"class": "key box after"}, "after"),
    )
    under = element("div", {"class": "stages", "aria-hidden": "true"}, *names)
    # a few layers need not fill a page
    inner = element("div", {"style": f"max-width:{4 * len(layers)}rem"}, picture, under)
    return element("figure", {"class": "skyline", "id": "skyline"}, caption, inner)
