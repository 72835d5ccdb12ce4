"""The figures and tables of `sim.py`: from summed counts to figures by id, and from figures to text.

Glossary
    counts    what `sim.py` counted, summed over the seeds: "hour8.stale", "hour8.poll.bytes", "edits.1h.attempts", …
    figures   the posts' figures by their ids in results/published.json, and ours under ids of the same form
    cells     a function from figures to one table row, used for our figures and for the published ones alike
"""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import Any, Callable, List, Mapping, Optional

from compare import PUBLISHED
from report import Counts, Figures, Sweep, both, number, percent, ratio, share, table

DELAYS = (("20s", "20 s", 20.0), ("15min", "15 min", 900.0), ("1h", "1 h", 3600.0), ("4h", "4 h", 14400.0))


def figures(counts: Counts, seeds: int) -> Figures:
    """The posts' figures by id, and ours under ids of the same form (given_stale, gone, cost.moved, …)."""
    found: Figures = {}
    hours = sum(name.startswith("hour") and name.endswith(".checks") for name in counts)
    for hour in range(1, hours + 1):
        found.update(staleness_figures(counts, f"hour{hour}.", f"sim.staleness.hour{hour}."))
    last = f"sim.staleness.hour{hours}."
    found["sim.staleness.title_check_percent"] = ratio_percent(found, last + "title_check_found", last + "stale")
    control = staleness_figures(counts, f"control.hour{hours}.", "sim.control.")
    found.update({name: value for name, value in control.items() if "title_check" not in name})
    for whose in ("questions", "saves"):
        found[f"sim.popularity.{whose}"] = counts[whose]
        found[f"sim.popularity.top10_{whose}"] = counts[f"{whose}_top10"]
        found[f"sim.popularity.top10_{whose}_percent"] = counts["zipf_top10_percent"] / seeds
    checks = sum(counts[f"hour{hour}.checks"] for hour in range(1, hours + 1))
    found["sim.cost.checks"] = checks
    for way in ("title", "reread", "poll", "moved"):
        calls, size = (
            sum(counts[f"hour{hour}.{way}.{what}"] for hour in range(1, hours + 1)) for what in ("calls", "bytes")
        )
        for hour in range(1, hours + 1):
            found[f"sim.cost.{way}.hour{hour}.kib_per_check"] = ratio(
                counts[f"hour{hour}.{way}.bytes"] / 1024, counts[f"hour{hour}.checks"]
            )
        found[f"sim.cost.{way}.calls"] = calls
        found[f"sim.cost.{way}.kib"] = size / 1024
        found[f"sim.cost.{way}.bytes_per_call"] = ratio(size, calls)
        found[f"sim.cost.{way}.calls_per_check"] = ratio(calls, checks)
        found[f"sim.cost.{way}.kib_per_check"] = ratio(size / 1024, checks)
    for delay, _, _ in DELAYS:
        for name in ("attempts", "version_conflicts", "no_longer_published", "retries_saved"):
            found[f"sim.edits.{delay}.{name}"] = counts.get(f"edits.{delay}.{name}", 0)
        name = f"sim.edits.{delay}."
        found[name + "version_conflicts_percent"] = ratio_percent(found, name + "version_conflicts", name + "attempts")
    for total in ("no_longer_published", "replays_sent", "replays_marked"):
        name = "no_longer_published_total" if total == "no_longer_published" else total
        found[f"sim.edits.{name}"] = sum(counts.get(f"edits.{delay}.{total}", 0) for delay, _, _ in DELAYS)
    return found


def staleness_figures(counts: Counts, source: str, name: str) -> Figures:
    found: Figures = {
        name + what: counts[source + what]
        for what in ("citations", "distinct", "stale", "gone", "given_stale", "first_stale", "answers", "answers_stale")
    }
    found[name + "title_check_found"] = counts[source + "title_check_found"]
    found[name + "stale_percent"] = ratio_percent(found, name + "stale", name + "citations")
    found[name + "given_stale_percent"] = ratio_percent(found, name + "given_stale", name + "citations")
    found[name + "answers_stale_percent"] = ratio_percent(found, name + "answers_stale", name + "answers")
    return found


def last_hour(found: Mapping[str, Any]) -> int:
    return max(int(name.split(".")[2][4:]) for name in found if name.startswith("sim.staleness.hour"))


def ratio_percent(found: Figures, part: str, whole: str) -> Optional[float]:
    return percent(found[part] or 0, found[whole] or 0)


def tables(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    return "\n\n".join(
        [
            staleness_table(found, published, options),
            control_table(found, published),
            cost_table(found, published),
            edits_table(found, published),
        ]
    )


def staleness_table(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    rows = []
    for hour in range(1, options.hours + 1):
        if hour == 1 or hour % 2 == 0 or hour == options.hours:  # of eight hours the post prints these: 1, 2, 4, 6, 8
            rows += both(str(hour), found, published, staleness_cells(f"sim.staleness.hour{hour}."))
    return table(
        "How fast do citations go stale?",
        ("hour", "", "citations so far", "stale", "answers with one", "found by title", "stale of all given"),
        rows,
        (
            "stale: distinct citations (article and version) that are stale / citations so far (as the post counts)",
            "answers with one: answers with at least one stale citation / answers so far",
            "found by title: distinct stale citations that searching their title again gives away / all stale ones",
            "stale of all given (ours): stale citations, repeats counted like all others / citations so far",
            f"The ten most popular articles have {number(found['sim.popularity.top10_questions_percent'], 1)}% of the "
            "popularity; here they had",
            f"{share(found['sim.popularity.top10_questions'], found['sim.popularity.questions'])} of the questions and "
            f"{share(found['sim.popularity.top10_saves'], found['sim.popularity.saves'])} of the saves.",
        ),
    )


def staleness_cells(name: str) -> Callable[[Mapping[str, Any]], List[str]]:
    def cells(f: Mapping[str, Any]) -> List[str]:
        answers = share(f.get(name + "answers_stale"), f.get(name + "answers"))
        if name + "answers" not in f and name + "answers_stale_percent" in f:
            answers = f"{f[name + 'answers_stale_percent']:.1f}%"  # the post prints no counts here
        return [
            number(f.get(name + "citations")),
            share(f.get(name + "stale"), f.get(name + "citations")),
            answers,
            share(f.get(name + "title_check_found"), f.get(name + "stale")),
            share(f.get(name + "given_stale"), f.get(name + "citations")),
        ]

    return cells


def control_table(found: Figures, published: Mapping[str, Any]) -> str:
    hours = last_hour(found)
    given, answers = (found[f"sim.staleness.hour{hours}.{what}"] for what in ("citations", "answers"))

    def cells(f: Mapping[str, Any]) -> List[str]:
        return [
            share(f.get("sim.control.stale"), given),
            share(f.get("sim.control.answers_stale"), answers),
            share(f.get("sim.control.given_stale"), given),
        ]

    return table(
        "Control: the same saves spread evenly over all articles",
        ("", "", "stale", "answers with a stale one", "stale of all given"),
        both("end of day", found, published, cells),
    )


def cost_table(found: Figures, published: Mapping[str, Any]) -> str:
    ways = (
        ("title", "search each cited title again"),
        ("reread", "re-read each cited article"),
        ("poll", "poll_resource_events from a cursor"),
        ("moved", "re-read what moved, after polling (ours)"),
    )
    rows = []
    for way, label in ways:
        comparable = published if way != "moved" else {}
        rows += both(label, found, comparable, cost_cells(f"sim.cost.{way}."))
    return table(
        f"What the hourly checks cost, all seeds together ({number(found['sim.cost.checks'])} checks)",
        ("strategy", "", "calls", "data returned", "calls per check", "data per check", "data per call"),
        rows,
        ("data: what the calls returned, as JSON in UTF-8. The published data per call is its KiB over its calls.",),
    )


def cost_cells(name: str) -> Callable[[Mapping[str, Any]], List[str]]:
    return lambda f: [
        number(f.get(name + "calls")),
        f"{number(f.get(name + 'kib'))} KiB",
        number(f.get(name + "calls_per_check"), 1),
        f"{number(f.get(name + 'kib_per_check'), 1)} KiB",
        f"{number(f.get(name + 'bytes_per_call'))} bytes" if f.get(name + "bytes_per_call") else "n/a",
    ]


def edits_table(found: Figures, published: Mapping[str, Any]) -> str:
    rows = []
    for delay, label, _ in DELAYS:
        rows += both(label, found, published, edit_cells(f"sim.edits.{delay}."))
    replays = [
        f"  {who}: {share(f['sim.edits.replays_marked'], f['sim.edits.replays_sent'])} returned the first result, "
        f"marked as a replay; {number(f['sim.edits.no_longer_published_total'])} edits found the article gone"
        for who, f in (("ours", found), ("published", published))
        if f
    ]
    return table(
        "Editing with the version from a citation",
        (
            "delay after the read",
            "",
            "refused, version changed",
            "refused, no longer published",
            "retry after a fresh read",
        ),
        rows,
        (
            "refused: because the version changed, or because the article is no longer published / edits tried",
            "retry: saved / tried again. The same call sent once more after each edit that was saved at once:",
            *replays,
        ),
    )


def edit_cells(name: str) -> Callable[[Mapping[str, Any]], List[str]]:
    return lambda f: [
        share(f[name + "version_conflicts"], f[name + "attempts"]),
        share(f[name + "no_longer_published"], f[name + "attempts"]),
        share(f[name + "retries_saved"], f[name + "version_conflicts"]),
    ]


def sweep_cells(f: Mapping[str, Any]) -> List[str]:
    hours = last_hour(f)
    last = f"sim.staleness.hour{hours}."
    return [
        share(f[last + "given_stale"], f[last + "citations"]),
        share(f[last + "answers_stale"], f[last + "answers"]),
        *[f"{number(f[f'sim.cost.{way}.kib_per_check'], 1)} KiB" for way in ("title", "reread", "poll")],
        share(f["sim.edits.1h.version_conflicts"], f["sim.edits.1h.attempts"]),
    ]


SWEEP = Sweep(
    columns=("stale of all given", "answers with one", "search titles", "re-read", "poll", "refused after 1 h"),
    cells=sweep_cells,
    notes=(
        "stale of all given, answers with one: at the end of the day; search titles, re-read, poll: data per check",
        "refused after 1 h: edits refused because the version had changed / edits tried. The agent's own edits are",
        "saves too: where people save little, it lies well above what theory.py says of people's saves alone",
    ),
)


def contradiction(stale: int, percent_stale: float, answers: int, control: int, control_answers: int) -> str:
    """Markdown: why the post's staleness column cannot be what its head says, in the post's own numbers."""
    text = f"""
        At hour 8 the post has {stale} stale citations, and {answers} of 600 answers with at least one. If each
        citation belonged to one answer, {stale} stale ones could be in {stale} answers at most. The same holds for the
        control: {control} stale citations in {control_answers} answers. Counting distinct citations (one article in one
        version, however often it was given) gives both columns, at every hour and in the control. But "citations so
        far" counts all that were given, so the published {percent_stale}% divides distinct citations by given ones. Of
        all citations given, about twice as large a share is stale; `sim.py` prints it beside the published column."""
    return f'\n### The published "stale" divides one thing by another\n\n{fill(" ".join(text.split()), 118)}\n'


NOTES = contradiction(
    PUBLISHED["sim.staleness.hour8.stale"],
    PUBLISHED["sim.staleness.hour8.stale_percent"],
    round(6 * PUBLISHED["sim.staleness.hour8.answers_stale_percent"]),
    PUBLISHED["sim.control.stale"],
    PUBLISHED["sim.control.answers_stale"],
)
