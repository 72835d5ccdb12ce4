"""Published against reproduced: the posts' figures, and how close a run's figures come to them.

Glossary
    figure     {id, value, kind, unit, table, row, column} in results/published.json: one number that a post prints
    group      the figures of one run over a group of seeds; --replicates makes many
    spread     the mean of the groups, and their central 95% and 99%: quantiles, interpolated linearly between ranks
    kind       exact    fixed by the design: must come out equal, as rounded by the post
               size     bytes of texts that the posts do not publish: must lie within 2%
               sampled  depends on the random draws: must lie inside the reconstruction's own spread
               timing   depends on the machine: never compared here
    verdict    equal       this run's figure, rounded as the post prints it, is the published one
               within 2%   a size that is not equal
               inside 95%  the published figure lies in the central 95% of the groups; inside 99% likewise
               differs     none of these
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from operator import mul
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")

with open(os.path.join(RESULTS, "published.json"), encoding="utf-8") as _file:
    FIGURES: Dict[str, Dict[str, Any]] = {figure["id"]: figure for figure in json.load(_file)["figures"]}

PUBLISHED: Dict[str, Any] = {identifier: figure["value"] for identifier, figure in FIGURES.items()}

SIZE_TOLERANCE = 0.02


def as_printed(value: float, published: float) -> float:
    """A value rounded to the decimals that the published figure is printed with."""
    return round(value, decimals(published))


def decimals(published: float) -> int:
    """How many the post prints."""
    text = repr(published)
    return len(text.split(".")[1]) if "." in text else 0


def summary(figures: Mapping[str, Optional[float]], published: Mapping[str, Any]) -> List[str]:
    """Lines that say how many exact and size figures of a run come out, naming each that does not."""
    lines = ["Published against this run"]
    for kind, rule in (("exact", "equal"), ("size", f"within {SIZE_TOLERANCE:.0%}")):
        of_kind = [i for i in figures if i in published and FIGURES[i]["kind"] == kind]
        if not of_kind:
            continue
        wrong = [i for i in of_kind if not fits(figures[i], i)]
        lines.append(f"  {kind}: {len(of_kind) - len(wrong)} of {len(of_kind)} {rule}")
        lines += [f"    DIFFERS {i}: {figures[i]} against {published[i]} published" for i in wrong]
    sampled = sum(FIGURES[i]["kind"] == "sampled" for i in figures if i in published)
    lines.append(f"  sampled: {sampled}, which differ from seed to seed; --replicates shows how much")
    return lines


def fits(value: Optional[float], identifier: str) -> bool:
    """Whether an exact figure is equal or a size is within its tolerance."""
    figure = FIGURES[identifier]
    if value is None:
        return False
    published: float = figure["value"]
    if figure["kind"] == "exact":
        return as_printed(value, published) == published
    return abs(value - published) <= SIZE_TOLERANCE * published


# --- many groups ------------------------------------------------------------------------------------------------------


class Spread(NamedTuple):
    mean: float
    low95: float
    high95: float
    low99: float
    high99: float


def spread(values: Sequence[Optional[float]]) -> Optional[Spread]:
    """None where a group has not measured the figure."""
    known = sorted(value for value in values if value is not None)
    if len(known) < len(values):
        return None
    tails = [quantile(known, tail) for tail in (0.025, 0.975, 0.005, 0.995)]
    return Spread(math.fsum(known) / len(known), *tails)


def quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def verdict(identifier: str, value: Optional[float], groups: Optional[Spread]) -> str:
    figure = FIGURES[identifier]
    published: float = figure["value"]
    if value is None or groups is None:
        return "differs"
    if as_printed(value, published) == published:
        return "equal"
    if figure["kind"] == "size":
        return f"within {SIZE_TOLERANCE:.0%}" if fits(value, identifier) else "differs"
    if figure["kind"] == "sampled":
        # The published figure is rounded, so it stands for all that rounds to it.
        if as_printed(groups.low95, published) <= published <= as_printed(groups.high95, published):
            return "inside 95%"
        if as_printed(groups.low99, published) <= published <= as_printed(groups.high99, published):
            return "inside 99%"
    return "differs"


def comparison(title: str, groups: Sequence[Mapping[str, Optional[float]]]) -> str:
    """Markdown: every published figure of a script beside the first group and the spread of all, then the totals."""
    rows = []
    verdicts: Dict[str, Counter[str]] = {}
    for identifier, value in groups[0].items():
        if identifier not in PUBLISHED:
            continue
        figure, groups_spread = FIGURES[identifier], spread([group[identifier] for group in groups])
        judged = verdict(identifier, value, groups_spread)
        verdicts.setdefault(figure["kind"], Counter())[judged] += 1
        cells = [f"`{identifier}`", figure["kind"], printed(figure["value"], figure["value"])]
        cells.append("n/a" if value is None else printed(value, figure["value"]))
        if groups_spread is None:
            cells += ["n/a"] * 3
        else:
            mean, low95, high95, low99, high99 = (printed(part, figure["value"]) for part in groups_spread)
            cells += [mean, f"{low95} to {high95}", f"{low99} to {high99}"]
        rows.append(f"| {' | '.join(cells)} | {judged} |")
    head = ["figure", "kind", "published", "this run", "mean", "central 95%", "central 99%", "verdict"]
    lines = [f"## {title}", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows, ""]
    for kind, counted in sorted(verdicts.items()):
        total = sum(counted.values())
        said = ", ".join(f"{times} {name}" for name, times in sorted(counted.items()))
        lines.append(f"- {kind}: {said}, of {total}")
        if kind == "sampled":
            outside = counted["inside 99%"] + counted["differs"]
            lines.append(
                f"  - outside the central 95%: {outside} of {total}, outside 99%: {counted['differs']}; "
                f"by chance alone, were the figures independent, {0.05 * total:.1f} and {0.01 * total:.1f}"
            )
    return "\n".join([*lines, *overall(groups), ""])


def printed(value: float, published: float) -> str:
    return f"{value:,.{decimals(published)}f}"


def overall(groups: Sequence[Mapping[str, Optional[float]]]) -> List[str]:
    """One check of all sampled figures together, since they depend on each other: the Mahalanobis distance of the
    published ones from the groups, and its rank among the groups' own distances, each taken from all other groups."""
    names = [i for i in groups[0] if i in PUBLISHED and FIGURES[i]["kind"] == "sampled" and not derived(i)]
    vectors = [[float(group[i] or 0) for i in names] for group in groups]
    count, mean = len(vectors), [math.fsum(column) / len(vectors) for column in zip(*vectors)]
    used, factor = cholesky(covariance(vectors, mean))
    if not used or count < 3 * len(used):
        return ["- all sampled figures together: too few groups to say"]
    own = [left_out(distance_squared(factor, [vector[i] - mean[i] for i in used]), count) for vector in vectors]
    published = distance_squared(factor, [PUBLISHED[names[i]] - mean[i] for i in used])
    farther = sum(squared >= published for squared in own)
    return [
        f"- all sampled figures together ({len(used)} that do not follow from the others): the published ones lie "
        f"{math.sqrt(published):.2f} from the mean (Mahalanobis distance), the groups "
        f"{math.sqrt(quantile(sorted(own), 0.5)):.2f} (median); {farther} of {count} groups lie as far or farther, "
        f"p = {(farther + 1) / (count + 1):.3f}"
    ]


DERIVED = (
    "_percent",
    "_per_check",
    ".kib",
    ".retries_saved",
    ".replays_marked",
    ".replays_sent",
    "_total",
    "left_to_a_person",
)


def derived(identifier: str) -> bool:
    """Whether a figure follows from others. The share of stale answers does not: the post prints no counts of them."""
    return identifier.endswith(DERIVED) and not (
        identifier.startswith("sim.staleness.") and identifier.endswith(".answers_stale_percent")
    )


def left_out(squared: float, count: int) -> float:
    """A group's squared distance with the group itself left out of mean and covariance, as the published figures are:
    by the Sherman-Morrison formula, from its squared distance with all `count` groups in."""
    rest = 1 - count * squared / (count - 1) ** 2
    if rest < 1e-9:  # without this group some figure would not vary at all: nothing is as far away
        return math.inf
    return (count / (count - 1)) ** 2 * (count - 2) / (count - 1) * squared / rest


def covariance(vectors: Sequence[Sequence[float]], mean: Sequence[float]) -> List[List[float]]:
    centred = [[value - middle for value, middle in zip(vector, mean)] for vector in vectors]
    columns = list(zip(*centred))
    return [[math.fsum(map(mul, one, other)) / (len(vectors) - 1) for other in columns] for one in columns]


def cholesky(matrix: Sequence[Sequence[float]]) -> Tuple[List[int], List[List[float]]]:
    """(the columns used, the lower factor of their matrix). A column that follows from those before it is left out."""
    used: List[int] = []
    factor: List[List[float]] = []
    for column, row in enumerate(matrix):
        new: List[float] = []
        for earlier, index in zip(factor, used):
            new.append((row[index] - math.fsum(map(mul, new, earlier))) / earlier[len(new)])
        remaining = row[column] - math.fsum(value * value for value in new)
        if remaining > 1e-9 * row[column]:
            factor.append([*new, math.sqrt(remaining)])
            used.append(column)
    return used, factor


def distance_squared(factor: Sequence[Sequence[float]], difference: Sequence[float]) -> float:
    """differenceᵀ (L Lᵀ)⁻¹ difference, by forward substitution."""
    solved: List[float] = []
    for row, value in zip(factor, difference):
        solved.append((value - math.fsum(map(mul, solved, row))) / row[len(solved)])
    return math.fsum(value * value for value in solved)
