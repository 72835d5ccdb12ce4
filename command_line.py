"""A script's command line: its options, one run, many groups of seeds, a sweep over options, files merged.

Glossary
    script     report.Script: parts that count, figures from counts, tables from figures
    document   what --json writes: {"script", "options", "seeds", "figures", "counts"}
    inferred   an option that the posts leave open: changed, its figures can still be compared with theirs

Exit codes: 0; 1 the ground truth failed, or the run was interrupted; 2 a wrong option or file, said in one line.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from itertools import islice, product
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple

from compare import PUBLISHED, comparison, spread, summary
from report import (
    CHECK,
    PUBLISHED_SEEDS,
    Figures,
    GroundTruthFailed,
    Script,
    Sweep,
    add_up,
    measure,
    seeds_text,
    table,
)


def main(script: Script, argv: Optional[Sequence[str]] = None) -> None:
    """Runs a script from the command line; see above for the exit codes."""
    parser = make_parser(script)
    try:
        options = parser.parse_args(argv)
        documents = read_documents(script, parser, options) if options.merge else []
        if documents:
            vars(options).update(documents[0]["options"])  # those that the files were made with
        model = {action.dest: getattr(options, action.dest) for action in model_actions(parser)}
        as_published = all(model[a.dest] == a.default or a.dest in script.inferred for a in model_actions(parser))
        if options.replicates and not (as_published and len(options.seeds) == PUBLISHED_SEEDS):
            raise ValueError(f"--replicates compares with the posts: {PUBLISHED_SEEDS} seeds, the posts' options")
        if options.json not in (None, "-"):
            open(options.json, "a", encoding="utf-8").close()  # a run of minutes must not end in a refused file
        if script.sweep and options.sweep:
            text, document = sweep(script, script.sweep, options, parser)
        elif options.replicates:
            text, document = replicate(script, options)
        else:
            text, document = one_run(script, options, PUBLISHED if as_published else {}, documents)
        if options.json:
            write_text(options.json, json.dumps({**document, "options": model}, indent=1, sort_keys=True) + "\n")
        if options.json != "-":
            write_text("-", text)
    except GroundTruthFailed as failure:
        raise SystemExit(f"{script.name}.py: ground truth failed: {failure}") from failure
    except KeyboardInterrupt:
        raise SystemExit(f"{script.name}.py: interrupted") from None
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
        if action is None or not callable(action.type):
            raise ValueError(f"--sweep {text!r}: {name!r} is no option that can be varied")
        if action.dest in choices:
            raise ValueError(f"--sweep {text!r}: {name!r} is given twice")
        try:
            choices[action.dest] = [action.type(value) for value in values.split(",")]
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"--sweep {text!r}: {error}") from error
    return [dict(zip(choices, values)) for values in product(*choices.values())]


def text_report(
    script: Script,
    figures: Figures,
    counts: Mapping[str, float],
    seeds: Sequence[int],
    published: Mapping[str, Any],
    options: argparse.Namespace,
) -> str:
    lines = [f"{script.name}.py, {seeds_text(seeds)}", "", script.tables(figures, published, options), ""]
    checks = {name[len(CHECK) :]: times for name, times in sorted(counts.items()) if name.startswith(CHECK)}
    lines += ["Ground truth"] if checks else []
    lines += [f"  PASS  {rule}: {times:,.0f} of {times:,.0f} checks" for rule, times in checks.items()]
    if any(identifier in published for identifier in figures):
        lines += ["", *summary(figures, published)]
    return "\n".join(lines) + "\n"


def read_documents(
    script: Script, parser: argparse.ArgumentParser, options: argparse.Namespace
) -> List[Dict[str, Any]]:
    """What `--json` wrote to the files that --merge names, for seeds that ran on several machines.

    Raises ValueError, naming the file, if it is no output of this script or does not fit the others: a seed is in two,
    or their options differ. OSError if it cannot be read.
    """
    for action in [*model_actions(parser), *(action for action in parser._actions if action.dest == "seeds")]:
        if getattr(options, action.dest) != action.default:
            raise ValueError(f"--merge takes seeds and options from the files, not {action.option_strings[0]}")
    documents: List[Dict[str, Any]] = []
    for path in options.merge:
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: is no JSON: {error}") from error
        if not is_document(script, parser, document):
            raise ValueError(f"{path} is not a --json file of a run of {script.name}.py")
        if documents and document["options"] != documents[0]["options"]:
            raise ValueError(f"{path} was not made with the same options as {options.merge[0]}")
        documents.append(document)
    seeds = [seed for document in documents for seed in document["seeds"]]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"a seed stands in two of the files: {sorted(seeds)}")
    return documents


def is_document(script: Script, parser: argparse.ArgumentParser, document: Any) -> bool:
    """Whether it has the shape of what this script writes: its options with values that they take, seeds, counts."""
    if not isinstance(document, dict) or document.get("script") != script.name:
        return False
    options, seeds, counts = (document.get(name) for name in ("options", "seeds", "counts"))
    actions = {action.dest: action for action in model_actions(parser)}
    return (
        isinstance(options, dict)
        and options.keys() == actions.keys()
        and all(takes(actions[name], value) for name, value in options.items())
        and isinstance(seeds, list)
        and len(seeds) > 0
        and all(type(seed) is int and 0 <= seed < 10**9 for seed in seeds)
        and isinstance(counts, dict)
        and all(type(n) in (int, float) and math.isfinite(n) for n in counts.values())
        and all(name.isprintable() for name in counts)
    )


def takes(action: argparse.Action, value: Any) -> bool:
    """Whether an option would give this value, had it been written on the command line."""
    if value == action.default and type(value) is type(action.default):
        return True
    try:
        return callable(action.type) and type(value) in (int, float) and action.type(f"{value:.12g}") == value
    except argparse.ArgumentTypeError:
        return False


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
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--merge", nargs="+", metavar="FILE", help="run nothing: add up the seeds of these --json files"
    )
    if any(name.startswith(f"{script.name}.") for name in PUBLISHED):
        help_text = "compare with the posts over N groups of seeds: the given ones, then fresh ones"
        instead.add_argument("--replicates", type=whole(2, 100_000), metavar="N", help=help_text)
    if script.sweep:
        help_text = "one table row for each value, or combination of values"
        instead.add_argument("--sweep", nargs="+", metavar="OPTION=V,V", help=help_text)
    parser.set_defaults(replicates=None, sweep=None)
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


def write_text(path: str, text: str) -> None:
    """To a file, or to standard output for "-". A reader that has gone away (| head) is no error.

    Raises OSError. What standard output's encoding lacks is written as an escape: a table must not fail on an accent.
    """
    if path != "-":
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        return
    if sys.stdout is None:
        raise OSError("standard output is closed")
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
