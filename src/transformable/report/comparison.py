"""The page of a comparison or a sweep, from top to bottom; it needs nothing but itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from .findings import (
    UNPRUNED,
    Entry,
    accuracy,
    by_budget,
    columns,
    failures,
    footnotes,
    label,
    machine,
    macs_of,
    table_cells,
    teacher_of,
    time_words,
    unpruned_cells,
    winner,
)
from .markup import cells, document, element, escape, join, pairs, table
from .results import Row, summary
from .scatter import MARKERS, Key, Point, Reference, scatter
from .style import STYLE
from .verdict import budget_words, verdict
from .wording import METRICS, NOTHING, count, milliseconds, percent

__all__ = ["page"]

# one for each method, next to white and to black, neighbours unlike
COLOURS = (
    *("#c62c30", "#09a65b", "#6255d6", "#e66e01", "#077667", "#b770ef", "#8d6002"),
    *("#06a0ac", "#ac379d", "#a19203", "#017197", "#ef5b95", "#507300", "#3a90ff"),
)
OWN_STYLE = """
.mark { white-space: nowrap; color: var(--ink); }
.mark svg { display: inline-block; width: 0.9em; height: 0.9em; margin-right: 0.35em;
  vertical-align: -0.06em; fill: var(--mark, var(--muted)); }
.scatter { margin: 1.5rem 0 2.5rem; }
.scatter .scroll { margin: 0; }
.scatter .scroll svg { min-width: 40rem; max-width: 60rem; }
.scatter .point path { fill: var(--mark); stroke: var(--paper); stroke-width: 1; }
.scatter .spread { stroke: var(--mark); stroke-width: 1.5; opacity: 0.65; }
.scatter .trace { fill: none; stroke: var(--mark); stroke-width: 1.5; }
.scatter .leader { stroke: var(--mark); stroke-width: 0.75; }
.scatter rect.band { opacity: 0.45; }
.scatter .cross { stroke: var(--ink); stroke-width: 2; }
.scatter .name { fill: var(--ink); }
.times { display: grid; column-gap: 0.8rem; font-size: 0.88rem; line-height: 1.75;
  grid-template-columns: fit-content(40%) minmax(4rem, 1fr) max-content; max-width: 60rem; }
.time { display: grid; grid-template-columns: subgrid; grid-column: 1 / -1; align-items: center; }
.time .lengths { display: flex; height: 0.8rem; }
.lengths .searched { background: var(--accent); }
.lengths .trained { background: var(--rule); }
.time .numbers { text-align: right; white-space: nowrap; color: var(--muted); }
.key.box.trained::before { border-color: var(--rule); background: var(--rule); }
#results :is(th, td):nth-child(2) { text-align: left; }
#results tr.open td { color: var(--muted); }
#results td.state { text-align: left; white-space: normal; }
header li { max-width: 46rem; margin-bottom: 0.5rem; }
#failures li { margin-bottom: 0.5rem; overflow-wrap: anywhere; }
""" + "".join(f".m{i} {{ --mark: {colour}; }}\n" for i, colour in enumerate(COLOURS))


def page(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """All of the page."""
    entries = summary(rows)
    parts = {
        "results": ("Results", _results(entries, facts)),
        "pictures": ("Accuracy and cost", _pictures(rows, entries, facts)),
        "time": ("Time", _times(entries, facts)),
        "failures": ("Failed runs", _failures(rows)),
        "setup": ("How it was run", _setup(rows, facts)),
    }
    parts = {key: part for key, part in parts.items() if part[1]}
    links = (element("a", {"href": f"#{key}"}, name) for key, (name, _) in parts.items())
    what = "A sweep over budgets" if facts["kind"] == "sweep" else "A comparison of pruning methods"
    header = element(
        "header",
        {},
        element("p", {"class": "over"}, what),
        element("h1", {}, escape(facts["title"])),
        _told(verdict(entries, facts)),
        element("nav", {"aria-label": "Parts of this report"}, *links),
    )
    sections = [
        element("section", {"id": key}, element("h2", {}, name), "\n", content)
        for key, (name, content) in parts.items()
    ]
    body = join([header, element("main", {}, "\n", join(sections))])
    return document(f"{facts['title']}, compared", STYLE + OWN_STYLE, body)


def _told(sentences: Sequence[str]) -> str:
    """One paragraph; a list where there are several budgets."""
    first, rest = sentences[0], sentences[1:]
    if len(rest) < 2:
        return element("p", {"class": "lead"}, escape(" ".join(sentences)))
    items = "".join(element("li", {}, escape(one)) + "\n" for one in rest)
    return element("p", {"class": "lead"}, escape(first)) + element("ul", {}, "\n", items)


def _results(entries: Sequence[Entry], facts: Mapping[str, Any]) -> str:
    clear = [id(done[0]) for done in by_budget(entries).values() if winner(done)]
    lines = [cells(*map(escape, unpruned_cells(facts, entries)))]
    for entry in entries:
        texts = [escape(text) for text in table_cells(entry, entries, facts)]
        lines.append(_line(texts, clear=id(entry) in clear, done=entry["accuracy"] is not None))
    notes = (element("p", {"class": "note"}, escape(n)) for n in footnotes(entries, facts))
    return join([table("Results", columns(entries), lines), *notes])


def _line(texts: Sequence[str], *, clear: bool, done: bool) -> str:
    if done:
        return cells(f"<b>{texts[0]}</b>" if clear else texts[0], *texts[1:])
    # what is told in place of an accuracy has the room of the numbers that are missing
    names = [text for text in texts if text != NOTHING]
    ends = {"colspan": len(texts) - len(names) + 1, "class": "state"}
    first = "".join(element("td", {}, name) for name in names[:-1])
    return element("tr", {"class": "open"}, first, element("td", ends, names[-1]))


def _pictures(rows: Sequence[Row], entries: Sequence[Entry], facts: Mapping[str, Any]) -> str:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    transfers = list(dict.fromkeys(row["transfer"] for row in rows))
    keys = [Key(method, i % len(COLOURS), 0) for i, method in enumerate(methods)]
    if len(transfers) > 1:
        keys += [Key(name, None, i % len(MARKERS)) for i, name in enumerate(transfers)]

    def points(xs: Sequence[float | None]) -> list[Point]:
        return [
            Point(
                label=entry["method"],
                words=_words(entry, entries, facts),
                colour=methods.index(entry["method"]) % len(COLOURS),
                marker=transfers.index(entry["transfer"]) % len(MARKERS),
                x=x,
                y=entry["accuracy"],
                std=entry["accuracy_std"],
            )
            for entry, x in zip(entries, xs, strict=True)
            if entry["accuracy"] is not None and x is not None
        ]

    bands = [(t["low"], t["high"]) for t in facts["targets"].values() if t["metric"] == "macs"]
    about = "Higher is more accurate, further left is cheaper."
    if any(entry["accuracy_std"] is not None for entry in entries):
        about += " A bar is one std over the seeds to each side."
    return join(
        [
            scatter(
                "by-macs",
                "Accuracy against MACs",
                about,
                ("MACs", "count"),
                points([macs_of(entry, facts) for entry in entries]),
                _unpruned(facts, "macs"),
                bands,
                keys,
            ),
            scatter(
                "by-latency",
                "Accuracy against measured latency",
                about.replace("cheaper", "faster"),
                ("latency, ms", "plain"),
                points([entry["latency_ms"] for entry in entries]),
                _unpruned(facts, "latency_ms"),
                (),
                keys,
            ),
        ]
    )


def _words(entry: Entry, entries: Sequence[Entry], facts: Mapping[str, Any]) -> str:
    macs = macs_of(entry, facts)
    parts = [
        f"{label(entry, entries)}, budget {entry['budget']}: {accuracy(entry)}",
        f"{count(macs)} MACs" if macs is not None else "",
        milliseconds(entry["latency_ms"]) if entry["latency_ms"] is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _unpruned(facts: Mapping[str, Any], name: str) -> Reference | None:
    teacher = teacher_of(facts["teacher"])
    if teacher["accuracy"] is None:
        return None
    x = teacher[name]
    size = "" if x is None else f", {count(x)} MACs" if name == "macs" else f", {milliseconds(x)}"
    words = f"{UNPRUNED}: {percent(teacher['accuracy'])}{size}"
    return Reference(label=words, x=x, y=teacher["accuracy"])


def _times(entries: Sequence[Entry], facts: Mapping[str, Any]) -> str:
    """How long it took to find the shapes and to train the networks, told apart."""
    done = [entry for entry in entries if entry["n"]]
    if not done:
        return ""
    several = len({entry["budget"] for entry in entries}) > 1
    lines = [
        (
            label(entry, entries) + (f", {entry['budget']}" if several else ""),
            entry["search_seconds"] or 0.0,
            entry["train_seconds"] or 0.0,
        )
        for entry in done
    ]
    longest = max(search + training for _, search, training in lines) or 1.0
    caption = element(
        "figcaption",
        {},
        element("strong", {}, "Mean time of a run"),
        element("span", {"class": "key box after"}, "search"),
        element("span", {"class": "key box trained"}, "training"),
    )
    bars = element("div", {"class": "times"}, "\n", *(_time(*line, longest) for line in lines))
    seconds = teacher_of(facts["teacher"])["seconds"]
    words = f"The unpruned network was trained in {time_words(seconds)}." if seconds else ""
    note = element("p", {"class": "note"}, words) if words else ""
    return element("figure", {"id": "times"}, caption, bars) + note


def _time(name: str, search: float, training: float, longest: float) -> str:
    def length(kind: str, seconds: float) -> str:
        style = f"width:{100 * seconds / longest:.4g}%"
        return element("span", {"class": kind, "style": style})

    lengths = length("searched", search) + length("trained", training)
    row = element(
        "div",
        {"class": "time"},
        element("span", {}, escape(name)),
        element("span", {"class": "lengths"}, lengths),
        element("span", {"class": "numbers"}, f"{time_words(search)} + {time_words(training)}"),
    )
    return row + "\n"


def _failures(rows: Sequence[Row]) -> str:
    lines = (
        element("li", {}, element("b", {}, escape(run)), ": ", escape(why))
        for run, why in failures(rows)
    )
    items = "".join(line + "\n" for line in lines)
    return element("ul", {}, "\n", items) if items else ""


def _setup(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    def names(key: str) -> str:
        return ", ".join(dict.fromkeys(str(row[key]) for row in rows)) or NOTHING

    budgets = dict.fromkeys(str(row["budget"]) for row in rows)
    command = facts["command"]
    # one search serves all transfers
    searches = {(row["method"], row["budget"], row["seed"]): row["search_seconds"] for row in rows}
    spent = [*searches.values(), *(row["train_seconds"] for row in rows)]
    run = {
        "methods": names("method"),
        "transfer": names("transfer"),
        "seeds": names("seed"),
        "budget": ", ".join(budget_words(budget, facts) for budget in budgets) or NOTHING,
        "metric": METRICS.get(facts["metric"], facts["metric"]),
        "epochs": facts["epochs"],
        "time of all runs": time_words(sum(seconds or 0.0 for seconds in spent)),
        "runs at the same time": facts.get("jobs", 1),
    }
    return join(
        [
            element("pre", {}, element("code", {}, escape(command))) if command else "",
            element("p", {}, escape(machine(facts))),
            element("h3", {}, "Runs"),
            pairs(run),
            element("h3", {}, "Environment"),
            pairs(facts["environment"]),
        ]
    )
