"""The report of one pruning run, as a page and as a few lines of Markdown."""

from collections.abc import Iterator

from .formatting import METRIC_NAMES, duration, significant
from .heat_map import heat_maps
from .line_chart import Line, LineChart, column
from .network_picture import Stage, stages_in_order, stages_need_full_width
from .rendering import render
from .run_facts import Layer, RunFacts

__all__ = ["run_page", "run_summary"]


def run_page(facts: RunFacts) -> str:
    """The text of ``report.html``."""
    stages = stages_in_order(facts.layers)
    charts = _search_charts(facts) if any(column(facts.search, "derived")) else []
    return render(
        "run.html",
        facts=facts,
        budget=budget_sentence(facts),
        deriving=_deriving(facts),
        stages=stages,
        wide=stages_need_full_width(stages),
        search_charts=charts,
        maps=heat_maps(facts) if facts.choices else None,
        training_charts=_training_charts(facts),
        setup=_setup(facts),
    )


def run_summary(facts: RunFacts) -> str:
    """The text of ``summary.md``."""
    budget, stages = budget_sentence(facts), list(_widths_by_stage(facts))
    return render("summary.md", facts=facts, budget=budget, stages=stages)


def budget_sentence(facts: RunFacts) -> str:
    """Whether the small network is inside the band of its budget."""
    target, cost = facts.target, facts.after.cost(facts.target.metric)
    share = target.value / facts.before.cost(target.metric)
    name = METRIC_NAMES.get(target.metric, target.metric)
    band = f"the band of {target.low:,} to {target.high:,}"
    verdict = f"is met: {cost:,} lies in" if facts.met else f"is missed: {cost:,} lies outside"
    measured = " This cost is a mean over images, since it depends on them."
    return (
        f"The budget of {target.value:,.0f} {name} ({share:.1%} of the unpruned network) "
        f"{verdict} {band}.{measured if facts.measured else ''}"
    )


def _deriving(facts: RunFacts) -> str:
    """How the shape was derived from the distributions; empty if that is not known."""
    how = facts.notes.get("derived_by")
    if how is None:
        return ""
    if how == "argmax":
        return "The shape is the most probable size of every layer and stage."
    given_up = facts.notes.get("given_up")
    cost = (
        ""
        if given_up is None
        else f"; that gave up {significant(given_up)} nats of log-probability"
    )
    return (
        "The most probable sizes together were outside the band, so the shape is the most probable "
        f"one inside it{cost}."
    )


def _search_charts(facts: RunFacts) -> list[LineChart]:
    rows, target = facts.search, facts.target
    name = METRIC_NAMES.get(target.metric, target.metric)
    return [
        LineChart(
            key="cost",
            title=f"Cost in {name}",
            description="F is the cost of the most probable shape, E the expected cost of a drawn "
            "one; the search pulls E into the band.",
            lines=[
                Line("F", column(rows, "derived")),
                Line("E", column(rows, "expected"), main=False),
            ],
            unit="count",
            band=(target.low, target.high),
        ),
        LineChart(
            key="discrepancy",
            title="Discrepancy",
            description="The largest probability minus the second largest, averaged over layers "
            "and stages: how sure the search is.",
            lines=[Line("discrepancy", column(rows, "discrepancy"))],
            unit="plain",
        ),
        LineChart(
            key="tau",
            title="Temperature",
            description="The temperature τ of the Gumbel-softmax: the lower, the closer a draw is "
            "to a single size.",
            lines=[Line("τ", column(rows, "tau"))],
            unit="plain",
        ),
    ]


def _training_charts(facts: RunFacts) -> list[LineChart]:
    """Teacher and student in the same pictures."""
    charts = []
    for key, name, title, description in (
        ("loss", "train_loss", "Training loss", "The mean over each epoch."),
        (
            "accuracy",
            "train_accuracy",
            "Training accuracy",
            "On the training images, while the weights change.",
        ),
        (
            "validation",
            "validation_accuracy",
            "Validation accuracy",
            "On images held out of the training set.",
        ),
    ):
        teacher, student = column(facts.teacher, name), column(facts.student, name)
        if not teacher and not student:
            description = "Nothing was noted: no images were held out."
        charts.append(
            LineChart(
                key=key,
                title=title,
                description=description,
                lines=[Line("teacher", teacher, main=False), Line("student", student)],
                unit="plain" if key == "loss" else "percent",
            )
        )
    return charts


def _setup(facts: RunFacts) -> dict[str, object]:
    total = duration(sum(facts.seconds.values()))
    times = ", ".join(f"{name} {duration(value)}" for name, value in facts.seconds.items())
    return {
        "model": facts.model,
        "data": facts.data,
        "method": facts.method,
        "seed": facts.seed,
        "residual": facts.residual,
        "transfer": facts.transfer,
        "teacher": facts.teacher_path or ("trained here" if facts.teacher else "given"),
        "time": f"{total} ({times})",
    }


def _widths_by_stage(facts: RunFacts) -> Iterator[tuple[Stage, str]]:
    """Each stage, and the layers outside of all stages together, with the widths that were kept."""
    for name in dict.fromkeys(layer.stage for layer in facts.layers):
        layers = [layer for layer in facts.layers if layer.stage == name]
        widths = ", ".join(_width(layer) for layer in layers if not layer.dropped)
        yield Stage(name, layers), widths


def _width(layer: Layer) -> str:
    return f"{layer.kept} (new)" if layer.added else f"{layer.kept}/{layer.full}"
