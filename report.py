"""What the scripts share: seeded randomness, ground truth, parts that run in processes, tables.

Glossary
    seed      an independent repetition of an experiment; everything random in it comes from `rng(seed, purpose)`
    part      a piece of an experiment that can run by itself: part(seed, options) -> counts
    counts    {name: number} that one part measured for one seed; counts of parts and seeds are added up
    figure    a number that a table shows, under an id as in results/published.json: {id: number or None}
    check     one comparison with the ground truth that the simulation keeps by itself, apart from the store

A script is a `Script`: named parts that count, `figures` that turns summed counts into figures, and `tables` that turns
figures into text. Because counts add up, seeds can run anywhere in any order; command_line.py runs them.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
from collections import Counter
from itertools import chain, islice
from multiprocessing import Pool
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from arguments import to_json
from tool_store import CheckFailed, ToolStore

STORE_CHECK = "the store's own invariants hold at the end"
CHECK = "check: "  # how the name of a count begins that counts passed checks
PUBLISHED_SEEDS = 5  # the posts' tables are sums over seeds 1-5, so only five seeds can be compared with them

Counts = Dict[str, float]
Figures = Dict[str, Optional[float]]
Part = Callable[[int, argparse.Namespace], Counts]


class Sweep(NamedTuple):
    """What --sweep shows of each setting: columns, and `cells` that makes them from figures."""

    columns: Sequence[str]
    cells: Callable[[Mapping[str, Any]], List[str]]
    notes: Sequence[str]


class Script(NamedTuple):
    """`figures(counts, seeds)` gets counts summed over so many seeds; `tables(figures, published, options)` gets
    `published` = {} when the options are not the posts', so that nothing is compared that cannot be."""

    name: str
    about: str
    examples: str
    parts: Dict[str, Part]
    figures: Callable[[Counts, int], Figures]
    tables: Callable[[Figures, Mapping[str, Any], argparse.Namespace], str]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    inferred: Tuple[str, ...] = ()  # options that the posts leave open: changed, their figures can still be compared
    sweep: Optional[Sweep] = None
    notes: str = ""  # what --replicates says after its tables


def rng(seed: int, purpose: str) -> random.Random:
    """The only source of randomness. Use `.random()` and what is built on it here: other methods of Random draw
    differently from one Python version to the next."""
    return random.Random(f"{seed}:{purpose}")


def pick(random_source: random.Random, choices: Sequence[Any]) -> Any:
    """One of the choices, each equally likely."""
    return choices[int(random_source.random() * len(choices))]


# --- ground truth -----------------------------------------------------------------------------------------------------


class GroundTruthFailed(Exception):
    """A store said one thing and the simulation knows another. Stops the run; no assert, which -O would remove."""


class GroundTruth:
    """Counts the checks that passed, by rule. Raises GroundTruthFailed at the first that does not."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()

    def equal(self, rule: str, actual: Any, expected: Any) -> None:
        if actual != expected:
            raise GroundTruthFailed(f"{rule}: {difference(actual, expected)}")
        self.passed[rule] += 1

    def store_is_sound(self, store: ToolStore) -> None:
        """The store's own `check()`, under the rule STORE_CHECK."""
        try:
            store.check()
        except CheckFailed as failure:
            raise GroundTruthFailed(f"{STORE_CHECK}: {failure}") from failure
        self.passed[STORE_CHECK] += 1

    def counts(self) -> Counts:
        return {f"{CHECK}{rule}": times for rule, times in self.passed.items()}


def difference(actual: Any, expected: Any) -> str:
    """What differs, and where: the first place in a list, a dict or a text, the first few members of a set."""
    if isinstance(actual, (set, frozenset)) and isinstance(expected, (set, frozenset)):
        missing, extra = sorted(map(repr, expected - actual)), sorted(map(repr, actual - expected))
        return f"missing {missing[:5]} ({len(missing)} in all), not expected {extra[:5]} ({len(extra)} in all)"
    if isinstance(actual, dict) and isinstance(expected, dict) and actual.keys() != expected.keys():
        return f"as keys: {difference(set(actual), set(expected))}"
    if isinstance(actual, dict) and isinstance(expected, dict):
        key = next(key for key in expected if actual[key] != expected[key])
        return f"at {key!r}: {difference(actual[key], expected[key])}"
    if type(actual) is type(expected) and isinstance(actual, (list, tuple)) and len(actual) == len(expected):
        place = next(place for place in range(len(actual)) if actual[place] != expected[place])
        return f"at {place}: {difference(actual[place], expected[place])}"
    if isinstance(actual, str) and isinstance(expected, str):
        place = next((i for i, (a, b) in enumerate(zip(actual, expected)) if a != b), min(len(actual), len(expected)))
        if place > 40:
            return f"from character {place}: got {actual[place:][:80]!r}, expected {expected[place:][:80]!r}"
    return f"got {str(actual)[:300]}, expected {str(expected)[:300]}"


# --- running --------------------------------------------------------------------------------------------------------


def measure(script: Script, seeds: Sequence[int], options: argparse.Namespace) -> Iterator[Counts]:
    """The counts of each seed, its parts added up, in the order of the seeds; the same for any number of processes."""
    tasks = [(part, seed, options) for seed in seeds for part in script.parts.values()]
    results = with_progress(run_tasks(tasks, len(script.parts), options.jobs), len(tasks))
    for _ in seeds:
        yield add_up(islice(results, len(script.parts)))


def run_tasks(tasks: List[Tuple[Part, int, argparse.Namespace]], parts: int, jobs: int) -> Iterator[Counts]:
    """Each task's counts, in the order of the tasks."""
    if jobs == 1 or len(tasks) == 1:
        yield from map(run_task, tasks)
        return
    # The parts of a seed go to one process, since they share what the seed begins with. Those of the last few seeds are
    # spread, so that no process waits while another one has a whole seed left.
    whole_seeds = len(tasks) // (parts * jobs) * parts * jobs
    with Pool(min(jobs, len(tasks)), ignore_interrupts) as pool:
        together = pool.imap(run_task, tasks[:whole_seeds], chunksize=parts)
        spread_out = pool.imap(run_task, tasks[whole_seeds:])
        yield from chain(together, spread_out)


def ignore_interrupts() -> None:
    """Ctrl-C goes to every process of a terminal; the first one ends the others, without a traceback from each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_task(task: Tuple[Part, int, argparse.Namespace]) -> Counts:
    part, seed, options = task
    return part(seed, options)


def add_up(many: Iterable[Counts]) -> Counts:
    total: Counter[str] = Counter()
    for counts in many:
        total.update(counts)  # adds
    return dict(total)


def with_progress(results: Iterable[Counts], total: int) -> Iterator[Counts]:
    shows = sys.stderr.isatty()
    for done, result in enumerate(results, 1):
        if shows:
            sys.stderr.write(f"\r{done} of {total} parts done" if done < total else "\r\033[K")
            sys.stderr.flush()
        yield result


# --- text -------------------------------------------------------------------------------------------------------------


def seeds_text(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]}-{seeds[-1]}"
    return "seeds " + ",".join(map(str, seeds))


def number(value: Optional[float], decimals: int = 0) -> str:
    """1,234.5 with so many decimals; n/a for what was not measured or not published."""
    return "n/a" if value is None else f"{value:,.{decimals}f}"


def share(part: Optional[float], whole: Optional[float]) -> str:
    """part/whole (percent%)"""
    if part is None or not whole:
        return "n/a"
    return f"{part:,.0f}/{whole:,.0f} ({100 * part / whole:.1f}%)"


def percent(part: float, whole: float) -> Optional[float]:
    """None where nothing was measured."""
    return 100 * part / whole if whole else None


def size(value: Any) -> int:
    """Bytes of what a tool returned, as JSON in UTF-8."""
    return len(to_json(value).encode())


def ratio(part: float, whole: float) -> Optional[float]:
    """None where nothing was measured."""
    return part / whole if whole else None


def both(
    label: str, figures: Figures, published: Mapping[str, Any], cells: Callable[[Mapping[str, Any]], List[str]]
) -> List[List[str]]:
    """The table rows of one label: ours, and under it the published one. `cells` makes both from figures by id."""
    rows = [[label, "ours", *cells(figures)]]
    if published:
        rows.append(["", "published", *cells(published)])
    return rows


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Aligned text: labels and texts to the left, columns of numbers to the right; notes follow the rows."""
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    numeric = [i > 0 and all(re.match(r"[-+]?[0-9]|n/a|$", cell) for cell in c) for i, c in enumerate(zip(*rows))]
    lines = [title, ""]
    for row in [columns, ["-" * width for width in widths], *rows]:
        cells = [c.rjust(width) if right else c.ljust(width) for c, width, right in zip(row, widths, numeric)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    lines += [""] + [f"  {note}" for note in notes] if notes else []
    return "\n".join(lines)
