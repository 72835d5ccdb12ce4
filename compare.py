"""Published against reproduced: the posts' figures, and how close a run's figures come to them.

Glossary
    figure     {id, value, kind, unit, table, row, column} in results/published.json: one number that a post prints
    kind       exact    fixed by the design: must come out equal, as rounded by the post
               size     bytes of texts that the posts do not publish: must lie within 2%
               sampled  depends on the random draws: must lie inside the reconstruction's own spread
               timing   depends on the machine: never compared here
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")

with open(os.path.join(RESULTS, "published.json"), encoding="utf-8") as _file:
    FIGURES: Dict[str, Dict[str, Any]] = {figure["id"]: figure for figure in json.load(_file)["figures"]}

PUBLISHED: Dict[str, Any] = {identifier: figure["value"] for identifier, figure in FIGURES.items()}

SIZE_TOLERANCE = 0.02


def as_printed(value: float, published: float) -> float:
    """A value rounded to the decimals that the published figure is printed with."""
    text = repr(published)
    return round(value, len(text.split(".")[1]) if "." in text else 0)


def summary(figures: Mapping[str, Optional[float]], published: Mapping[str, Any]) -> List[str]:
    """Lines that say how many exact and size figures of a run come out, naming each that does not."""
    lines = ["Published against this run"]
    for kind, rule in (("exact", "equal"), ("size", f"within {SIZE_TOLERANCE:.0%}")):
        of_kind = [i for i in figures if i in published and FIGURES[i]["kind"] == kind]
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
