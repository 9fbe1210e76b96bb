"""The page, from top to bottom; it needs nothing but itself."""

from .drawing import network, skyline
from .facts import Facts, Layer, Span
from .history import search, training
from .markup import cells, document, element, escape, join, pairs, table
from .script import SCRIPT
from .style import STYLE
from .wording import (
    budget,
    change,
    count,
    duration,
    file_size,
    milliseconds,
    percent,
    points,
    significant,
)

__all__ = ["page"]

PARTS = {
    "network": "Network",
    "search": "Search",
    "training": "Training",
    "speed": "Speed",
    "layers": "Layers",
    "setup": "Setup",
}


def page(facts: Facts) -> str:
    """All of ``report.html``."""
    title = f"{facts.model} on {facts.data}, pruned"
    content = {
        "network": _network(facts),
        "search": search(facts),
        "training": training(facts),
        "speed": _speed(facts),
        "layers": _layers(facts),
        "setup": _setup(facts),
    }
    sections = [
        element("section", {"id": key}, element("h2", {}, PARTS[key]), "\n", content[key])
        for key in PARTS
    ]
    # without distributions there is nothing for the script to draw
    script = element("script", {}, SCRIPT) if facts.choices else ""
    body = join([_header(facts), element("main", {}, "\n", join(sections)), script])
    return document(title, STYLE, body)


def _header(facts: Facts) -> str:
    title = f"{escape(facts.model)} on {escape(facts.data)}"
    links = (element("a", {"href": f"#{key}"}, name) for key, name in PARTS.items())
    return element(
        "header",
        {},
        element("p", {"class": "over"}, "Pruned by transformable architecture search"),
        element("h1", {}, title),
        element("p", {"class": "lead"}, escape(budget(facts))),
        _cards(facts),
        element("nav", {"aria-label": "Parts of this report"}, *links),
    )


def _cards(facts: Facts) -> str:
    """The two networks side by side in five numbers."""
    before, after = facts.before, facts.after
    top5 = (
        f"Top-5 {percent(before.top5)} → {percent(after.top5)}. "
        if before.top5 is not None and after.top5 is not None
        else ""
    )
    images = f"{facts.images:,} test images; one is {100 / facts.images:.2g} points."
    cards = (
        _card(
            "Accuracy",
            percent(before.accuracy),
            percent(after.accuracy),
            points(before.accuracy, after.accuracy),
            top5 + images,
        ),
        _card(
            "MACs",
            count(before.macs),
            count(after.macs),
            change(before.macs, after.macs),
            "Multiply-accumulates for one image.",
        ),
        _card(
            "Parameters",
            count(before.params),
            count(after.params),
            change(before.params, after.params),
            "Weights, biases and norms.",
        ),
        _card(
            "File size",
            file_size(before.bytes),
            file_size(after.bytes),
            change(before.bytes, after.bytes),
            "The saved weights.",
        ),
        _card(
            "Latency",
            milliseconds(before.latency_ms),
            milliseconds(after.latency_ms),
            change(before.latency_ms, after.latency_ms),
            "One image at a time (batch\N{NO-BREAK SPACE}1).",
        ),
    )
    return element("div", {"class": "cards"}, "\n", *(card + "\n" for card in cards))


def _card(name: str, before: str, after: str, difference: str, note: str) -> str:
    return element(
        "section",
        {"class": "card"},
        element("h3", {}, name),
        element("p", {"class": "pair"}, f"<span>{before} →</span> <b>{after}</b>"),
        element("p", {"class": "change"}, difference),
        element("p", {"class": "note"}, note),
    )


def _network(facts: Facts) -> str:
    words = (
        "Each bar is a layer: the frame is the unpruned width in channels, the filled part is what "
        "was kept. Lengths compare within a box. Dropped blocks are struck out."
    )
    return join([element("p", {"class": "note"}, words), network(facts), skyline(facts)])


def _speed(facts: Facts) -> str:
    rows = [
        cells(
            escape(row.engine),
            f"{row.batch:,}",
            _span(row.before),
            _span(row.after),
            f"<b>{row.before.median_ms / row.after.median_ms:.2f}×</b>",
        )
        for row in facts.speed
    ]
    head = ["engine", "batch", "before, ms", "after, ms", "speed-up"]
    words = "Median time for one batch; in brackets the quartiles of the repeated measurements."
    note = element("p", {"class": "note"}, words)
    sentence = element("p", {}, escape(facts.faster))
    return join([sentence, note + "\n" + table("Speed", head, rows) if rows else ""])


def _span(span: Span) -> str:
    spread = f"{significant(span.low_ms)} – {significant(span.high_ms)}"
    return f"{significant(span.median_ms)} " + element("span", {"class": "spread"}, f"({spread})")


def _layers(facts: Facts) -> str:
    before, after = facts.before, facts.after
    whole = cells(
        "whole network",
        *("", "", ""),
        *(f"{before.macs:,}", f"{after.macs:,}", change(before.macs, after.macs)),
        *(f"{before.params:,}", f"{after.params:,}"),
        kind="whole",
    )
    head = ["layer", "channels", "kind", "output", "MACs before", "after", "change"]
    rows = [*map(_layer, facts.layers), whole]
    return table("Layers", [*head, "params before", "after"], rows)


def _layer(layer: Layer) -> str:
    kernel = "×".join(map(str, layer.kernel or ())) if "conv" in layer.kind else ""
    size = "×".join(map(str, layer.size or ()))
    name = element("code", {}, escape(layer.name))
    return cells(
        f"<s>{name}</s>" if layer.dropped else name,
        f"{layer.full or 'new'} → " + ("dropped" if layer.dropped else f"<b>{layer.kept}</b>"),
        escape(f"{layer.kind} {kernel}".strip()),
        escape(size or "1"),
        f"{layer.macs_before:,}",
        f"{layer.macs_after:,}",
        change(layer.macs_before, layer.macs_after),
        f"{layer.params_before:,}",
        f"{layer.params_after:,}",
        kind="dropped" if layer.dropped else None,
    )


def _setup(facts: Facts) -> str:
    total = duration(sum(facts.seconds.values()))
    times = ", ".join(f"{name} {duration(value)}" for name, value in facts.seconds.items())
    run = {
        "model": facts.model,
        "data": facts.data,
        "seed": facts.seed,
        "residual": facts.residual,
        "transfer": facts.transfer,
        "teacher": facts.teacher_path or ("trained here" if facts.teacher else "given"),
        "time": f"{total} ({times})",
    }
    return join(
        [
            element("pre", {}, element("code", {}, escape(facts.command))) if facts.command else "",
            element("h3", {}, "Run"),
            pairs(run),
            element("h3", {}, "Environment"),
            pairs(facts.environment),
            element("h3", {}, "Config") if facts.config else "",
            pairs(facts.config) if facts.config else "",
        ]
    )
