"""What the scripts share: their options, seeds run in processes, ground truth, tables, and figures as JSON.

Glossary
    seed      an independent repetition of an experiment; everything random in it comes from `rng(seed, purpose)`
    part      a piece of an experiment that can run by itself: part(seed, options) -> counts
    counts    {name: number} that one part measured for one seed; counts of parts and seeds are added up
    figure    a number that a table shows, under an id as in results/published.json: {id: number or None}
    check     one comparison with the ground truth that the simulation keeps by itself, apart from the store

A script is a `Script`: named parts that count, `figures` that turns summed counts into figures, and `tables` that turns
figures into text. Because counts add up, seeds can run anywhere in any order, and files from `--json` can be merged.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice, product
from multiprocessing import Pool
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple

from compare import PUBLISHED, comparison, spread, summary

PUBLISHED_SEEDS = 5  # the posts' tables are sums over seeds 1-5, so only five seeds can be compared with them

Counts = Dict[str, float]
Figures = Dict[str, Optional[float]]
Part = Callable[[int, argparse.Namespace], Counts]


@dataclass(frozen=True)
class Sweep:
    """What --sweep shows of each setting: columns, and `cells` that makes them from figures."""

    columns: Sequence[str]
    cells: Callable[[Mapping[str, Any]], List[str]]
    notes: Sequence[str]


@dataclass(frozen=True)
class Script:
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

    def counts(self) -> Counts:
        return {f"check: {rule}": times for rule, times in self.passed.items()}


def difference(actual: Any, expected: Any) -> str:
    if isinstance(actual, (set, frozenset)) and isinstance(expected, (set, frozenset)):
        missing, extra = sorted(map(repr, expected - actual)), sorted(map(repr, actual - expected))
        return f"missing {missing[:5]} ({len(missing)} in all), not expected {extra[:5]} ({len(extra)} in all)"
    return f"got {str(actual)[:300]}, expected {str(expected)[:300]}"


# --- running --------------------------------------------------------------------------------------------------------


def main(script: Script, argv: Optional[Sequence[str]] = None) -> None:
    """Runs a script from the command line. Exit codes: 0, 1 ground truth failed, 2 a wrong option."""
    parser = make_parser(script)
    options = parser.parse_args(argv)
    try:
        if options.json not in (None, "-"):
            open(options.json, "a", encoding="utf-8").close()  # a run of minutes must not end in a refused file
        documents = read_documents(script, options.merge or [])
        if documents:
            vars(options).update(documents[0]["options"])  # those that the files were made with, not those given here
        model = {action.dest: getattr(options, action.dest) for action in model_actions(parser)}
        as_published = all(model[a.dest] == a.default or a.dest in script.inferred for a in model_actions(parser))
        if script.sweep and options.sweep:
            text, document = sweep(script, script.sweep, options, parser)
        elif options.replicates:
            if not as_published or len(options.seeds) != PUBLISHED_SEEDS:
                raise ValueError(f"--replicates compares with the posts: {PUBLISHED_SEEDS} seeds, the posts' options")
            text, document = replicate(script, options)
        else:
            text, document = one_run(script, options, PUBLISHED if as_published else {}, documents)
        document["options"] = model
        if options.json:
            write_text(options.json, json.dumps(document, indent=1, sort_keys=True) + "\n")
        if options.json != "-":
            write_text("-", text)
    except GroundTruthFailed as failure:
        raise SystemExit(f"{script.name}.py: ground truth failed: {failure}") from failure
    except (OSError, ValueError) as error:
        parser.error(str(error))


def one_run(
    script: Script, options: argparse.Namespace, published: Mapping[str, Any], documents: Sequence[Dict[str, Any]]
) -> Tuple[str, Dict[str, Any]]:
    """The report of the given seeds, or of those in documents to be merged, as text and as a JSON document."""
    if documents:
        counts = add_up(document["counts"] for document in documents)
        seeds = sorted(seed for document in documents for seed in document["seeds"])
    else:
        counts, seeds = add_up(measure(script, options.seeds, options)), options.seeds
    figures = script.figures(counts, len(seeds))
    published = published if len(seeds) == PUBLISHED_SEEDS else {}
    document = {"script": script.name, "seeds": seeds, "figures": figures, "counts": counts}
    return text_report(script, figures, counts, seeds, published, options), document


def replicate(script: Script, options: argparse.Namespace) -> Tuple[str, Dict[str, Any]]:
    """The experiment over N groups of seeds: the given ones, then fresh ones, each group as large as the given."""
    size, first_fresh = len(options.seeds), max(options.seeds) + 1
    fresh = range(first_fresh, first_fresh + (options.replicates - 1) * size)
    per_seed = measure(script, [*options.seeds, *fresh], options)
    groups = [script.figures(add_up(islice(per_seed, size)), size) for _ in range(options.replicates)]
    last = fresh[-1] if fresh else first_fresh - 1
    title = (
        f"{script.name}.py: {options.replicates:,} groups of {size} seeds ({seeds_text(options.seeds)}, then to {last})"
    )
    spreads = {identifier: spread([group[identifier] for group in groups]) for identifier in groups[0]}
    document = {"script": script.name, "groups": options.replicates, "figures": groups[0], "spread": spreads}
    return comparison(title, groups) + script.notes, document


def sweep(
    script: Script, what: Sweep, options: argparse.Namespace, parser: argparse.ArgumentParser
) -> Tuple[str, Dict[str, Any]]:
    """One table row for each combination of the values to try. Raises ValueError for what is no option or value."""
    settings = sweep_settings(options.sweep, parser)
    rows, runs = [], []
    for setting in settings:
        tried = argparse.Namespace(**{**vars(options), **setting})
        figures = script.figures(add_up(measure(script, options.seeds, tried)), len(options.seeds))
        rows.append([*[f"{value:g}" for value in setting.values()], *what.cells(figures)])
        runs.append({"options": setting, "figures": figures})
    title = f"{script.name}.py, {seeds_text(options.seeds)}: {' and '.join(settings[0])} varied"
    columns = [*settings[0], *what.columns]
    text = table(title, columns, rows, what.notes)
    return text + "\n", {"script": script.name, "seeds": options.seeds, "sweep": runs}


def sweep_settings(texts: Sequence[str], parser: argparse.ArgumentParser) -> List[Dict[str, float]]:
    """[{"saves": 50, "hours": 4}, …] from ["saves=50,100", "hours=4,8"]: each combination, the last varying fastest."""
    choices: Dict[str, List[Any]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        action = next((action for action in model_actions(parser) if f"--{name}" in action.option_strings), None)
        if action is None or not callable(action.type) or action.dest in choices:
            raise ValueError(f"--sweep {text!r}: {name!r} is no option that can be varied, or is given twice")
        try:
            choices[action.dest] = [action.type(value) for value in values.split(",")]
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"--sweep {text!r}: {error}") from error
    return [dict(zip(choices, values)) for values in product(*choices.values())]


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
    with Pool(min(jobs, len(tasks))) as pool:
        together = pool.imap(run_task, tasks[:whole_seeds], chunksize=parts)
        spread_out = pool.imap(run_task, tasks[whole_seeds:])
        yield from chain(together, spread_out)


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


def read_documents(script: Script, paths: Sequence[str]) -> List[Dict[str, Any]]:
    """What `--json` wrote to several files, for seeds that ran on several machines.

    Raises ValueError if a file is no output of this script, or if they cannot be added up: a seed is in two of them,
    or their options differ.
    """
    documents: List[Dict[str, Any]] = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        kept = {"script", "options", "seeds", "counts"}
        if not isinstance(document, dict) or not kept <= document.keys() or document["script"] != script.name:
            raise ValueError(f"{path} is not a --json file of a run of {script.name}.py")
        if documents and document["options"] != documents[0]["options"]:
            raise ValueError(f"{path} was not made with the same options as {paths[0]}")
        documents.append(document)
    seeds = [seed for document in documents for seed in document["seeds"]]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"a seed stands in two of the files: {sorted(seeds)}")
    return documents


# --- options ----------------------------------------------------------------------------------------------------------


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage in front of it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help shows the options)\n")


SHARED_OPTIONS = {"help", "seeds", "jobs", "json", "replicates", "merge", "sweep"}


def make_parser(script: Script) -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=f"{script.name}.py",
        description=script.about,
        epilog=f"examples:\n{script.examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--seeds", type=seed_list, default=seed_list("1-5"), help="1-5, 3 or 1,4,7-9 (default: 1-5)")
    parser.add_argument(
        "--jobs", type=whole(1, 256), default=os.cpu_count() or 1, help="processes (default: one per core)"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the figures as JSON; - for standard output, without tables"
    )
    parser.add_argument(
        "--replicates",
        type=whole(2, 100_000),
        metavar="N",
        help="compare with the posts over N groups of seeds: the given ones, then fresh ones",
    )
    parser.add_argument(
        "--merge", nargs="+", metavar="FILE", help="run nothing: add up the seeds of these --json files"
    )
    if script.sweep:
        parser.add_argument(
            "--sweep", nargs="+", metavar="OPTION=V,V", help="one table row for each value (or combination of values)"
        )
    script.add_options(parser)
    return parser


def model_actions(parser: argparse.ArgumentParser) -> List[argparse.Action]:
    """The options that change what is modelled, as opposed to how often and where it runs."""
    return [action for action in parser._actions if action.dest not in SHARED_OPTIONS]


def seed_list(text: str) -> List[int]:
    """[1, 4, 7, 8, 9] from "1,4,7-9"."""
    seeds: List[int] = []
    for item in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", item.strip())
        if match is None:
            raise argparse.ArgumentTypeError(f"{item!r} is not a seed or a range such as 1-5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise argparse.ArgumentTypeError(f"{item!r} ends before it begins")
        if last - first >= 100_000:
            raise argparse.ArgumentTypeError(f"{item!r} is more than 100,000 seeds")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise argparse.ArgumentTypeError(f"{text!r} names a seed twice")
    return seeds


def whole(low: int, high: int) -> Callable[[str], int]:
    """A parser of whole numbers from low to high."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low:,} to {high:,}")
        return int(text)

    return parse


def real(low: float, high: float) -> Callable[[str], float]:
    """A parser of decimal numbers from low to high."""

    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]{0,12}\.?[0-9]{1,12}", text) or not low <= float(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low:g} to {high:g}")
        return float(text)

    return parse


# --- text -------------------------------------------------------------------------------------------------------------


def text_report(
    script: Script,
    figures: Figures,
    counts: Counts,
    seeds: Sequence[int],
    published: Mapping[str, Any],
    options: argparse.Namespace,
) -> str:
    lines = [f"{script.name}.py, {seeds_text(seeds)}", "", script.tables(figures, published, options), ""]
    checks = {
        name[len("check: ") :]: int(times) for name, times in sorted(counts.items()) if name.startswith("check: ")
    }
    lines += ["Ground truth"] if checks else []
    lines += [f"  PASS  {rule}: {times:,} of {times:,} checks" for rule, times in checks.items()]
    if any(identifier in published for identifier in figures):
        lines += ["", *summary(figures, published)]
    return "\n".join(lines) + "\n"


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


def write_text(path: str, text: str) -> None:
    """To a file, or to standard output for "-". A reader that has gone away (| head) is no error."""
    if path != "-":
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
