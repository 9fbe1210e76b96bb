"""The report of one pruning run, as a page and as a few lines of Markdown."""

from .formatting import METRIC_NAMES, amount, significant
from .heat_map import heat_maps
from .network_picture import Stage, stages_in_order, stages_need_full_width
from .rendering import render
from .run_facts import Layer, RunFacts

__all__ = ["run_page", "run_summary"]


def run_page(facts: RunFacts) -> str:
    """The text of ``report.html``."""
    stages = stages_in_order(facts.layers)
    return render(
        "run.html",
        facts=facts,
        budget=_budget(facts),
        deriving=_deriving(facts),
        stages=stages,
        wide=stages_need_full_width(stages),
        maps=heat_maps(facts) if facts.distributions else None,
    )


def run_summary(facts: RunFacts) -> str:
    """The text of ``summary.md``."""
    stages = []
    # the layers outside of all stages together
    for name in dict.fromkeys(layer.stage for layer in facts.layers):
        layers = [layer for layer in facts.layers if layer.stage == name]
        widths = ", ".join(_width(layer) for layer in layers if not layer.dropped)
        stages.append((Stage(name, layers), widths))
    return render("summary.md", facts=facts, budget=_budget(facts), stages=stages)


def _width(layer: Layer) -> str:
    return f"{layer.kept} (new)" if layer.added else f"{layer.kept}/{layer.full}"


def _budget(facts: RunFacts) -> str:
    """Whether the small network is inside the band of its budget."""
    metric, value, low, high = (facts.target[name] for name in ("metric", "value", "low", "high"))
    cost, share = facts.after[metric], value / facts.before[metric]
    verdict, where = ("met", "in") if low <= cost <= high else ("missed", "outside")
    measured = " This cost is a mean over images, since it depends on them."
    return (
        f"The budget of {amount(metric, value)} {METRIC_NAMES.get(metric, '')}".rstrip()
        + f" ({share:.1%} of the unpruned network) is {verdict}: {amount(metric, cost)} lies "
        f"{where} the band of {amount(metric, low)} to {amount(metric, high)}."
        f"{measured if facts.measured else ''}{_limits(facts)}"
    )


def _limits(facts: RunFacts) -> str:
    """Whether the small network is below the limits beside the budget, if there are any."""
    sentences = []
    for metric, high in facts.target.get("at_most", {}).items():
        cost = facts.after[metric]
        verdict = "met" if cost <= high else "missed"
        most = f"{amount(metric, high)} {METRIC_NAMES.get(metric, '')}".rstrip()
        sentences.append(
            f" The limit of at most {most} is {verdict}: it has {amount(metric, cost)}."
        )
    return "".join(sentences)


def _deriving(facts: RunFacts) -> str:
    """How the shape was derived from the distributions; empty if that is not known."""
    how, given_up = facts.notes.get("derived_by"), facts.notes.get("given_up")
    if how is None:
        return ""
    if how == "argmax":
        return "The shape is the most probable size of every layer and stage."
    text = (
        "Several probable shapes inside the band were compared on held-out images, and this one "
        "was the best"
        if how == "judged"
        else "The most probable sizes together were outside the band, so the shape is the most "
        "probable one inside it"
    )
    if given_up is not None:
        text += f"; that gave up {significant(given_up)} nats of log-probability"
    return f"{text}."
