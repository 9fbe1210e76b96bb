"""The report in a few lines of Markdown, for a terminal or a pull request."""

from .facts import Facts, Layer
from .markup import code, plain
from .wording import blocks, budget, change, file_size, milliseconds, percent, points

__all__ = ["summary"]


def summary(facts: Facts) -> str:
    """A title, a table, and what to know about it."""
    before, after = facts.before, facts.after
    rows = (
        ("accuracy", percent(before.accuracy), percent(after.accuracy), _accuracy_change(facts)),
        ("MACs", f"{before.macs:,}", f"{after.macs:,}", change(before.macs, after.macs)),
        ("params", f"{before.params:,}", f"{after.params:,}", change(before.params, after.params)),
        (
            "file size",
            file_size(before.bytes),
            file_size(after.bytes),
            change(before.bytes, after.bytes),
        ),
        (
            "latency (batch 1)",
            milliseconds(before.latency_ms),
            milliseconds(after.latency_ms),
            change(before.latency_ms, after.latency_ms),
        ),
    )
    lines = [
        f"# {plain(facts.model)} on {plain(facts.data)}, pruned",
        "",
        "| | before | after | change |",
        "|---|---:|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        f"{_made(facts)} Accuracy is on {facts.images:,} test images.",
        "",
        budget(facts),
        "",
        plain(facts.faster),
        "",
        *_stages(facts),
    ]
    return "\n".join(lines) + "\n"


def _accuracy_change(facts: Facts) -> str:
    return points(facts.before.accuracy, facts.after.accuracy)


def _stages(facts: Facts) -> list[str]:
    """A line for each stage, and one for the layers outside of them."""
    stages: dict[str | None, list[Layer]] = {}
    for layer in facts.layers:
        stages.setdefault(layer.stage, []).append(layer)
    lines = []
    for stage, layers in stages.items():
        widths = ", ".join(_width(layer) for layer in layers if not layer.dropped)
        if stage is None:
            lines.append(f"- other layers: widths {widths}" if len(stages) > 1 else _all(widths))
            continue
        found = blocks(layers)
        kept = sum(any(not layer.dropped for layer in block) for block in found.values())
        words = f"{kept} of {len(found)} blocks"
        lines.append(f"- {code(stage)}: {words}" + (f", widths {widths}" if widths else ""))
    return lines


def _made(facts: Facts) -> str:
    """The command; there is none where Python was called."""
    return f"Made by {code(facts.command)}." if facts.command else "Made from Python."


def _width(layer: Layer) -> str:
    return f"{layer.kept} (new)" if layer.added else f"{layer.kept}/{layer.full}"


def _all(widths: str) -> str:
    return f"- widths {widths}"
