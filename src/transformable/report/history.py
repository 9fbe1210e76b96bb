"""How the run went: the search and its distributions, and both trainings."""

from .charts import Band, Series, line_chart, points_of
from .facts import Facts
from .heatmap import heat_map, map_data, strength
from .markup import element, embedded, escape, join
from .wording import METRICS, deriving

__all__ = ["search", "training"]


def search(facts: Facts) -> str:
    """Whether the search came to the budget and made up its mind."""
    if not facts.search and not facts.choices:
        return element("p", {"class": "note"}, "This folder has no record of a search.")
    parts = [element("p", {}, escape(deriving(facts)))]
    if facts.search:
        parts.append(element("div", {"class": "charts"}, *_charts(facts)))
    if facts.choices:
        parts.append(_distributions(facts))
    return join(parts)


def _charts(facts: Facts) -> list[str]:
    rows, target = facts.search, facts.target
    name = METRICS.get(target.metric, target.metric)
    return [
        line_chart(
            "cost",
            f"Cost in {name}",
            "F is the cost of the most probable shape, E the expected cost of a drawn one; the "
            "search pulls E into the band.",
            [
                Series("F", points_of(rows, "derived"), main=True),
                Series("E", points_of(rows, "expected"), main=False),
            ],
            "count",
            Band("budget", target.low, target.high),
        ),
        line_chart(
            "discrepancy",
            "Discrepancy",
            "The largest probability minus the second largest, averaged over layers and stages: "
            "how sure the search is.",
            [Series("discrepancy", points_of(rows, "discrepancy"), main=True)],
            "plain",
        ),
        line_chart(
            "tau",
            "Temperature",
            "The temperature τ of the Gumbel-softmax: the lower, the closer a draw is to a single "
            "size.",
            [Series("τ", points_of(rows, "tau"), main=True)],
            "plain",
        ),
    ]


def _distributions(facts: Facts) -> str:
    data = map_data(facts)
    first = facts.choices[0].name
    options = (
        element("option", {"value": i}, escape(f"{choice.name} ({choice.unit})"))
        for i, choice in enumerate(facts.choices)
    )
    choice = element(
        "div",
        # shown by the script: without it there is nothing to choose
        {"id": "map-choice", "hidden": ""},
        element("label", {"for": "map-select"}, "Layer or stage"),
        element("select", {"id": "map-select"}, *options),
    )
    side = element(
        "div",
        {},
        choice,
        element("p", {"class": "kept-note", "id": "map-note"}, escape(data["maps"][0]["note"])),
        _scale(),
        element(
            "p",
            {"class": "note"},
            "A row for each candidate size, a column for each epoch; the stronger its colour, the "
            "more probable the size was. The framed row is the size that was kept.",
        ),
        element("p", {"class": "note", "id": "readout"}),
        "<noscript><p class='note'>With JavaScript, any layer can be chosen here.</p></noscript>",
    )
    caption = element(
        "figcaption",
        {},
        element(
            "strong", {}, "Distributions: ", element("code", {"id": "map-name"}, escape(first))
        ),
    )
    return join(
        [
            element(
                "div", {"class": "map"}, element("figure", {}, caption, heat_map(data, 0)), side
            ),
            element("script", {"type": "application/json", "id": "map-data"}, embedded(data)),
        ]
    )


def _scale() -> str:
    """The legend of the cells."""
    size = {"y": 0, "width": 20, "height": 14}
    boxes = (
        {"class": "cell", "x": 20 * i, **size, "fill-opacity": strength(100 * i)} for i in range(11)
    )
    picture = element(
        "svg",
        {"viewBox": "0 0 220 14", "role": "img", "aria-label": "From 0% to 100%"},
        *(element("rect", box) for box in boxes),
    )
    return element("div", {"class": "scale"}, "0%", picture, "100%")


def training(facts: Facts) -> str:
    """Both trainings in the same pictures."""
    words = "The teacher is the unpruned network, the student the small one."
    if not facts.teacher:
        path = f" ({escape(facts.teacher_path)})" if facts.teacher_path else ""
        words = f"The teacher was given{path}, so only the student was trained here."
    if "kd" in facts.transfer:
        words += " The student's loss is that of distillation, so the two losses do not compare."
    charts = [
        _both(facts, "loss", "Training loss", "train_loss", "The mean over each epoch."),
        _both(
            facts,
            "accuracy",
            "Training accuracy",
            "train_accuracy",
            "On the training images, while the weights change.",
        ),
        _both(
            facts,
            "validation",
            "Validation accuracy",
            "validation_accuracy",
            "On images held out of the training set.",
        ),
    ]
    return join(
        [element("p", {"class": "note"}, words), element("div", {"class": "charts"}, *charts)]
    )


def _both(facts: Facts, key: str, title: str, column: str, description: str) -> str:
    series = [
        Series("teacher", points_of(facts.teacher, column), main=False),
        Series("student", points_of(facts.student, column), main=True),
    ]
    if not any(line.points for line in series):
        description = "Nothing was noted: no images were held out."
    return line_chart(key, title, description, series, "plain" if key == "loss" else "percent")
