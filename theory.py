"""What theory says of stale citations and late edits, beside a simulated day simple enough for it to be exact.

Glossary
    popularity   p₁, p₂, … : the share of questions, and of saves, that article i has; they sum to 1
    save rate    λ: saves an hour over all articles, so article i is saved λpᵢ times an hour
    stale share  of citations given at uniform times in the first h hours, the share that is stale at hour h:
                     Σ pᵢ (1 − (1 − e^(−λpᵢh)) / (λpᵢh))
    refused      of edits that name the version of a citation given d hours before, the share that is refused:
                     Σ pᵢ (1 − e^(−λpᵢd))
    simple day   nobody unpublishes, only an answer's first citation (the asked article) counts, and only delays that
                 end within the day: there the formulas hold, but for saves being 300 and not Poisson-many

Try your own numbers: `python theory.py --articles 2000 --saves 80 --hours 10`. The standard error is that of the mean
of the seeds' own shares (the share shown pools them): seeds differ independently, the answers within one do not.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, Dict, List, Mapping, Optional

from command_line import main
from report import CHECK, Counts, Figures, Script, number, percent, share, table
from sim import day_part
from sim_report import DELAYS
from support_day import HOUR, add_options, plan_day, popularity_shares

FULL_DAY = ("answers", "first_stale", "citations", "given_stale")


def stale_share(popularity: List[float], save_rate: float, hours: float) -> float:
    saves = [p * save_rate * hours for p in popularity]
    return math.fsum(p * (1 - (1 - math.exp(-n)) / n) for p, n in zip(popularity, saves) if n)


def refused_share(popularity: List[float], save_rate: float, delay: float) -> float:
    return math.fsum(p * (1 - math.exp(-p * save_rate * delay)) for p in popularity)


def popularity_of(options: argparse.Namespace) -> List[float]:
    return popularity_shares(options.articles, options.zipf)


# --- the simulated days -----------------------------------------------------------------------------------------------


def simple_day_part(seed: int, options: argparse.Namespace) -> Counts:
    """`sim.py`'s day with nobody unpublishing, as shares of first citations that are stale."""
    counts = day_part(seed, argparse.Namespace(**{**vars(options), "unpublish": 0.0}))
    shares = {name: passed for name, passed in counts.items() if name.startswith(CHECK)}
    for hour in range(1, options.hours + 1):
        shares.update(
            with_square(f"simple.hour{hour}", counts[f"hour{hour}.first_stale"], counts[f"hour{hour}.answers"])
        )
    return shares


def simple_delays_part(seed: int, options: argparse.Namespace) -> Counts:
    """Of edits due within the day, those whose article is saved between the answer and the edit.

    That such an edit is refused, and no other, is what the ground truth of `sim.py` checks; so the plan suffices here.
    """
    day = plan_day(seed, options)
    saved: Dict[int, List[float]] = {}
    for save in day.saves:
        saved.setdefault(save.rank, []).append(save.seconds)
    counts: Counts = {}
    for name, _, delay in DELAYS:
        due = [question for question in day.questions if question.seconds + delay <= options.hours * HOUR]
        late = sum(any(q.seconds < at <= q.seconds + delay for at in saved.get(q.rank, ())) for q in due)
        counts.update(with_square(f"simple.{name}", late, len(due)))
    return counts


def full_day_part(seed: int, options: argparse.Namespace) -> Counts:
    counts = day_part(seed, options)
    last = f"hour{options.hours}."
    checks = {name: passed for name, passed in counts.items() if name.startswith(CHECK)}
    return {**checks, **{f"full.{name}": counts[last + name] for name in FULL_DAY}}


def with_square(name: str, part: float, whole: float) -> Counts:
    """A seed's share and its square, from whose sums over the seeds the standard error follows."""
    if not whole:
        return {}
    one = part / whole
    return {name: part, f"{name}.of": whole, f"{name}.seeds": 1, f"{name}.share": one, f"{name}.square": one * one}


# --- figures and tables -----------------------------------------------------------------------------------------------


def figures(counts: Counts, seeds: int) -> Figures:
    """The simple day's shares and standard errors, and the full day's shares, in percent."""
    found: Figures = {}
    for name in counts:
        if name.endswith(".seeds"):
            simple = name[: -len(".seeds")]
            found[f"theory.{simple}"], found[f"theory.{simple}.of"] = counts[simple], counts[f"{simple}.of"]
            found[f"theory.{simple}.error"] = standard_error(counts, simple)
    for name in FULL_DAY:
        found[f"theory.full.{name}"] = counts[f"full.{name}"]
    return found


def standard_error(counts: Counts, name: str) -> Optional[float]:
    """Of the mean of the seeds' shares; None for a single seed."""
    seeds = counts[f"{name}.seeds"]
    if seeds < 2:
        return None
    mean = counts[f"{name}.share"] / seeds
    variance = max(0.0, (counts[f"{name}.square"] - seeds * mean * mean) / (seeds - 1))
    return math.sqrt(variance / seeds)


def tables(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    popularity, rate = popularity_of(options), options.saves / options.hours
    stale = [
        simple_row(found, f"simple.hour{hour}", f"{hour} h", stale_share(popularity, rate, hour))
        for hour in range(1, options.hours + 1)
    ]
    refused = [
        simple_row(found, f"simple.{name}", label, refused_share(popularity, rate, delay / HOUR))
        for name, label, delay in DELAYS
    ]
    columns = ("", "theory", "simple day", "difference", "standard error")
    note = "difference in percentage points; standard error likewise, of the mean of the seeds' shares"
    return "\n\n".join(
        [
            f"{options.articles:,} articles, popularity r^-{options.zipf:g}, "
            f"{options.saves:,} saves in {options.hours} h: lambda = {rate:g} saves an hour",
            table("Share of first citations that are stale", columns, stale, [note]),
            table("Share of late edits that are refused", columns, refused, [note]),
            full_day(found, stale_share(popularity, rate, options.hours)),
        ]
    )


def simple_row(found: Figures, name: str, label: str, theory: float) -> List[str]:
    part, whole, error = (found.get(f"theory.{name}{what}") for what in ("", ".of", ".error"))
    simulated = percent(part or 0, whole or 0)
    return [
        label,
        f"{100 * theory:.1f}%",
        share(part, whole),
        "n/a" if simulated is None else f"{simulated - 100 * theory:+.1f}",
        "n/a" if error is None else number(100 * error, 1),
    ]


def full_day(found: Figures, theory: float) -> str:
    first = share(found["theory.full.first_stale"], found["theory.full.answers"])
    given = share(found["theory.full.given_stale"], found["theory.full.citations"])
    return "\n".join(
        [
            "Why the full day differs",
            "",
            f"  theory, at the end of the day  {100 * theory:.1f}%",
            f"  full day, first citations      {first}",
            "    Once an article is unpublished, another one of its topic stands in for it.",
            f"  full day, all citations given  {given}",
            "    The second citation is of the topic's oldest article, so it follows that one's saves.",
            "  full day, distinct citations (the post's column)",
            "    A version counts once, however often it was given.",
            "  full day, late edits",
            "    Edits are saves too, which adds conflicts. Edits after the day's end meet no more saves, which takes",
            "    some away. An article that is gone is no conflict.",
        ]
    )


SCRIPT = Script(
    name="theory",
    about=(__doc__ or "").split("\n", 1)[0],
    examples="  python theory.py\n  python theory.py --articles 2000 --saves 80 --hours 10 --seeds 1-20",
    parts={"simple day": simple_day_part, "full day": full_day_part, "delays": simple_delays_part},
    figures=figures,
    tables=tables,
    add_options=add_options,
)

if __name__ == "__main__":
    main(SCRIPT)
