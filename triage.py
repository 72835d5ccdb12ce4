"""A scripted agent triages a bug tracker: what the schema in the page and the words of a refusal are each worth.

Glossary
    intention  {key: Meant} for one item: what a person wants in each of the six KEYS, in words (bug_tracker.py). Only
               the ground truth looks at what the words mean
    handed     the keys that the agent gives back to a person: it found no value that the channel takes
    level      how much a refusal says: terse, field, values or labels
    run        one pass over the same items and intentions: the schema read or not x a level, eight in all

The agent works from what the tools return and from nothing else. It reads the schema in the page or ignores it, sends
all six fields at once, and after a refusal repairs what that refusal lets it repair, once. It never cuts a number.

Source: the second post ("Lo schema nella pagina fa la differenza?", "E il controllo di versione?", "Quanto costa la
validazione?"). What the words are, and how likely, was worked out from its figures: with four statuses and four
severities, each equally likely, allowed values alone leave the 496 that the post reports beside the 143 points.
"""

from __future__ import annotations

import argparse
import platform
import sqlite3
import statistics
import time
from contextlib import closing
from datetime import date, timedelta
from functools import partial
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type

import compare
from arguments import JSON, ToolError
from bug_tracker import CHANNEL, TODAY, Bug, Intention, intentions, new_bugs, read_item, tracker, values_read
from command_line import main, whole, write_text
from field_schema import Schema
from record_store import RecordStore
from report import Counts, Figures, GroundTruth, Script, both, number, percent, ratio, rng, share, table

# What each ground-truth check says when it passes.
REFUSED_CHECK = "20 points are handed to a person, never saved"
SAVED_CHECK = "every field that the agent calls saved holds exactly what the words mean"
REST_CHECK = "every other field is as it was"
MOVED_CHECK = "a conflict for each item moved since the version that the agent sends, and for no other"
END_CHECK = "after the version check every item holds the agent's severity and the status of the last one to write"

# What a refusal says at each level.
LEVELS = {
    "terse": "nothing",
    "field": "which field",
    "values": "field, reason, values",
    "labels": "field, reason, values, labels",
}

# --- the agent -------------------------------------------------------------------------------------------------------


class Triager:
    """Its whole knowledge: what the tools return, what day it is, and what people told it."""

    def __init__(self, store: RecordStore, reads_schema: bool) -> None:
        self.store = store
        self.reads_schema = reads_schema
        self.fields: Dict[str, JSON] = {}  # {key: field}, from the page
        self.edit_calls = 0

    def triage_all(self, words: Mapping[str, JSON]) -> Dict[str, List[str]]:
        """{item_id: handed} for every item in the channel's pages. `words` is {item_id: {key: words}}."""
        handed = {}
        cursor: JSON = {}
        while True:
            page = self.store.call("list_record_items", {"record_channel_id": CHANNEL, **cursor})
            if self.reads_schema:
                self.fields = {field["key"]: field for field in page["schema"]}
            for item in page["items"]:
                handed[item["item_id"]] = self.triage(item["item_id"], words[item["item_id"]])
            if page["next_before_id"] is None:
                return handed
            cursor = {"before_id": page["next_before_id"]}

    def triage(self, item_id: str, words: JSON) -> List[str]:
        """Saves what it can of {key: words} in one item, and returns the keys that it hands to a person."""
        version = read_item(self.store, item_id)["version"]
        values = {key: self.through_schema(key, said) for key, said in words.items()}
        try:
            self.edit(item_id, values, version, "all at once")
            return []
        except ToolError as refused:
            failing = refused.payload.get("fields")
        if failing is None:
            return self.one_by_one(item_id, values, version)
        handed = []
        for field in failing:
            key = field["key"]
            values[key] = repaired(words[key], field)
            if values[key] is None:
                handed.append(key)
                del values[key]
        # Sent even if nothing is left, as the post's 2.00 calls per item show. It names no field that failed, so it
        # must pass: another refusal would be an error of the agent's or the store's, and ends the run.
        self.edit(item_id, values, version, "repaired")
        return handed

    def one_by_one(self, item_id: str, values: JSON, version: int) -> List[str]:
        """What is left after a refusal that names no field: each field by itself, to see which of them pass."""
        handed = []
        for key, value in values.items():
            try:
                version = self.edit(item_id, {key: value}, version, key)
            except ToolError:
                handed.append(key)
        return handed

    def edit(self, item_id: str, values: JSON, version: int, step: str) -> int:
        """The version after one call to edit_record_item. Raises ToolError if it is refused."""
        self.edit_calls += 1
        result = self.store.call("edit_record_item", edit_arguments(item_id, values, version, f"{item_id} {step}"))
        after: int = result["version"]
        return after

    def through_schema(self, key: str, words: Any) -> Any:
        """The value that the schema has for these words; the words themselves if it has none or was not read."""
        field = self.fields.get(key)
        if field is None:
            return words
        if field["type"] == "select":
            return matching_option(words, field["config"]["options"]) or words
        return day_named(words) or words if field["type"] == "date" else words


def repaired(words: Any, failing: JSON) -> Any:
    """A value for these words, from one entry of a refusal: {"key", "message"?, "allowed"?, …}. None if it has none."""
    if "allowed" in failing:
        allowed = [option if isinstance(option, dict) else {"value": option} for option in failing["allowed"]]
        return matching_option(words, allowed)
    if "YYYY-MM-DD" in failing.get("message", ""):
        return day_named(words)
    return None


def matching_option(words: str, options: Sequence[JSON]) -> Optional[str]:
    """The value of the one option {"value", "label"?} that these words can mean; None if there is none, or several.

    The label itself; the value, but for case and spaces ("In progress"); the value as a word of the phrase
    ("S2 Major"); the phrase as a word of the label ("major"). An apostrophe is no space: "Won't fix" is not wont_fix.
    """
    phrase = words.lower()
    rules = (
        lambda option: option.get("label", "").lower() == phrase,
        lambda option: option["value"] == phrase.replace(" ", "_"),
        lambda option: option["value"] in phrase.split(),
        lambda option: phrase in option.get("label", "").lower().split(),
    )
    for rule in rules:
        values: List[str] = [option["value"] for option in options if rule(option)]
        if values:
            return values[0] if len(values) == 1 else None
    return None


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def day_named(words: str) -> Optional[str]:
    """The date of the next such weekday after TODAY, which the agent knows from its conversation."""
    if words.lower() not in WEEKDAYS:
        return None
    today = date.fromisoformat(TODAY)
    days = (WEEKDAYS.index(words.lower()) - today.weekday() - 1) % 7 + 1
    return (today + timedelta(days=days)).isoformat()


def edit_arguments(item_id: str, values: JSON, version: int, key: str) -> JSON:
    return {
        "record_channel_id": CHANNEL,
        "item_id": item_id,
        "values": values,
        "expected_version": version,
        "idempotency_key": key,
    }


# --- the eight runs --------------------------------------------------------------------------------------------------


def run(reads_schema: bool, level: str, seed: int, options: argparse.Namespace) -> Counts:
    bugs = new_bugs(seed, options.items)
    meant = intentions(seed, bugs)
    words = {item_id: {key: said.words for key, said in intention.items()} for item_id, intention in meant.items()}
    truth = GroundTruth()
    with closing(tracker(seed, options.items, level)) as store:
        agent = Triager(store, reads_schema)
        handed = agent.triage_all(words)
        saved = fields_saved(meant, handed, values_read(bugs), all_values(store, bugs), truth)
        truth.store_is_sound(store)
    name = run_name(reads_schema, level)
    return {
        f"{name}.saved": saved,
        f"{name}.handed": sum(map(len, handed.values())),
        f"{name}.edit_calls": agent.edit_calls,
        f"{name}.items": len(bugs),
        **truth.counts(),
    }


def fields_saved(
    meant: Mapping[str, Intention],
    handed: Mapping[str, List[str]],
    before: Mapping[str, JSON],
    after: Mapping[str, JSON],
    truth: GroundTruth,
) -> int:
    """How many of the intended fields the store holds after the run, each held against what was meant."""
    saved = 0
    for item_id, intention in meant.items():
        impossible = {key for key, said in intention.items() if said.value is None}
        written = {key: said.value for key, said in intention.items() if key not in handed[item_id]}
        truth.equal(REFUSED_CHECK, impossible & written.keys(), set())
        truth.equal(SAVED_CHECK, {key: after[item_id][key] for key in written}, written)
        truth.equal(REST_CHECK, after[item_id], {**before[item_id], **written})
        saved += len(written)
    return saved


def run_name(reads_schema: bool, level: str) -> str:
    return f"{'schema' if reads_schema else 'no_schema'}.{level}"


def all_values(store: RecordStore, bugs: Sequence[Bug]) -> Dict[str, JSON]:
    """{item_id: {key: value}} of what is in the store."""
    return {item_id: read_item(store, item_id)["values"] for item_id, _ in bugs}


# --- the version check -----------------------------------------------------------------------------------------------

STRATEGIES = ("read_version", "fresh_version")


def version_check(seed: int, options: argparse.Namespace) -> Counts:
    """Both strategies on the same items, of which a person moves the same ones between the agent's read and write."""
    bugs = new_bugs(seed, options.items)
    source = rng(seed, "moves")
    moved = {item_id for item_id, _ in bugs if source.random() < 1 / options.moved_one_in}
    counts: Counts = {"versions.edits": len(bugs)}
    truth = GroundTruth()
    for strategy in STRATEGIES:
        with closing(tracker(seed, options.items)) as store:
            in_conflict = {item_id for item_id, _ in bugs if triaged_late(store, item_id, strategy, item_id in moved)}
            after = all_values(store, bugs)
            truth.store_is_sound(store)
        overwritten = {item_id for item_id in moved if after[item_id]["status"] != "in_progress"}
        agent_last = strategy == "fresh_version"
        truth.equal(MOVED_CHECK, in_conflict, set() if agent_last else moved)
        for item_id, _ in bugs:
            status = "in_progress" if item_id in moved and not agent_last else "triaged"
            truth.equal(END_CHECK, (after[item_id]["status"], after[item_id]["severity"]), (status, "s2"))
        counts[f"versions.{strategy}.conflicts"] = len(in_conflict)
        counts[f"versions.{strategy}.overwritten"] = len(overwritten)
    return {**counts, **truth.counts()}


def triaged_late(store: RecordStore, item_id: str, strategy: str, moved: bool) -> bool:
    """Whether the agent's edit of one New item met a conflict, when a person may move the item while it thinks."""
    version = read_item(store, item_id)["version"]
    if moved:
        store.update_item(CHANNEL, item_id, {"status": "in_progress"})
    if strategy == "fresh_version":
        version = read_item(store, item_id)["version"]  # the habit that defeats the check: it looks at the version only
    values = {"status": "triaged", "severity": "s2"}
    try:
        store.call("edit_record_item", edit_arguments(item_id, values, version, item_id))
        return False
    except ToolError as refused:
        if refused.payload["error"] != "version_conflict":
            raise
    item = read_item(store, item_id)
    if item["values"]["status"] != "new":
        values = {"severity": "s2"}  # a person has decided where it stands
    store.call("edit_record_item", edit_arguments(item_id, values, item["version"], f"{item_id} again"))
    return True


# --- the cost of validation ------------------------------------------------------------------------------------------
# Times depend on the machine, so they are no part of the script's figures and have an output of their own.

TIMED_EDITS = 2_000
TIMED_RUNS = 3


class Unvalidated(RecordStore):
    def validate(self, record_channel_id: str, item_id: str, schema: Schema, values: JSON) -> None:
        pass


class Timing(argparse.Action):
    """`--timing [FILE]` measures the cost of validation instead of running the script, as --help shows help instead."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
        try:
            if values:
                open(values, "a", encoding="utf-8").close()  # refused before it is measured, not after
            write_text(values or "-", timing())
        except OSError as error:
            parser.error(str(error))
        parser.exit()


def timing() -> str:
    stores = {"with validation": RecordStore, "validate() replaced by a stub": Unvalidated}
    medians: Dict[str, List[float]] = {name: [] for name in stores}
    for _ in range(TIMED_RUNS):  # in turn, so that a machine that slows down slows both
        for name, store_class in stores.items():
            medians[name].append(median_edit_us(store_class))
    rows = []
    for name, identifier in zip(stores, ("with_us", "without_us")):
        low, high = compare.PUBLISHED[f"triage.validation_cost.{identifier}"]
        rows.append([name, "ours", number(min(medians[name]), 1), number(max(medians[name]), 1)])
        rows.append(["", "published", number(low, 1), number(high, 1)])
    whole, stubbed = (statistics.median(of_runs) for of_runs in medians.values())
    title = f"What validation costs: median µs per edit of {TIMED_EDITS:,} valid six-field edits, {TIMED_RUNS} runs"
    machine = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}"
    notes = [f"ratio of the medians {whole / stubbed:.2f} (published 1.7)", machine]
    return table(title, ["store", "", "lowest", "highest"], rows, notes) + "\n"


def median_edit_us(store_class: Type[RecordStore]) -> float:
    meant = list(intentions(1, new_bugs(1, 200)).items())
    times = []
    with closing(tracker(1, 200, store_class=store_class)) as store:
        for turn in range(TIMED_EDITS):
            item_id, intention = meant[turn % len(meant)]
            values = {key: 13 if said.value is None else said.value for key, said in intention.items()}
            arguments = edit_arguments(item_id, values, 1 + turn // len(meant), f"edit {turn}")
            begin = time.perf_counter_ns()
            store.call("edit_record_item", arguments)
            times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1000


# --- figures and tables ----------------------------------------------------------------------------------------------

RUNS = [(reads_schema, level) for reads_schema in (False, True) for level in LEVELS]


def figures(counts: Counts, seeds: int) -> Figures:
    """The ids of results/published.json, in the order of the tables."""
    found: Figures = {}
    for reads_schema, level in RUNS:
        name = run_name(reads_schema, level)
        saved, handed, calls = (counts[f"{name}.{what}"] for what in ("saved", "handed", "edit_calls"))
        found[f"triage.{name}.fields_saved"] = saved
        found[f"triage.{name}.fields_saved_percent"] = percent(saved, saved + handed)
        found[f"triage.{name}.left_to_a_person"] = handed
        found[f"triage.{name}.edit_calls_per_item"] = ratio(calls, counts[f"{name}.items"])
    found["triage.versions.edits"] = counts["versions.edits"]
    for strategy in STRATEGIES:
        for what in ("conflicts", "overwritten"):
            found[f"triage.versions.{strategy}.{what}"] = counts[f"versions.{strategy}.{what}"]
    return found


def tables(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    return "\n\n".join([schema_table(found, published), version_table(found, published, options)])


def schema_table(found: Figures, published: Mapping[str, Any]) -> str:
    rows: List[List[str]] = []
    for reads_schema, level in RUNS:
        name = f"triage.{run_name(reads_schema, level)}"

        def cells(ids: Mapping[str, Any], name: str = name) -> List[str]:
            saved, handed = ids[f"{name}.fields_saved"], ids[f"{name}.left_to_a_person"]
            return [share(saved, saved + handed), number(handed), number(ids[f"{name}.edit_calls_per_item"], 2)]

        rows += both(f"{'yes' if reads_schema else 'no'}; {LEVELS[level]}", found, published, cells)
    return table(
        "Does the schema in the page make the difference?",
        ["schema read; refusal says", "", "fields saved", "left to a person", "edit calls per item"],
        rows,
        ["fields saved: of all intended fields, six for each item"],
    )


def version_table(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    rows: List[List[str]] = []
    for strategy, label in zip(STRATEGIES, ("the version of the read", "the version re-read just before writing")):

        def cells(ids: Mapping[str, Any], name: str = f"triage.versions.{strategy}") -> List[str]:
            edits = ids["triage.versions.edits"]
            return [share(ids[f"{name}.conflicts"], edits), share(ids[f"{name}.overwritten"], edits)]

        rows += both(label, found, published, cells)
    return table(
        f"The version check: a person moves 1 item in {options.moved_one_in} between read and write",
        ["the agent sends", "", "conflicts", "person's edits overwritten"],
        rows,
        ["both of all edits; overwritten as found in the store at the end"],
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=whole(1, 5_000), default=200, help="New items a seed (default: 200)")
    moved_help = "a person moves 1 item in N, each by chance, during the version check (default: 8)"
    parser.add_argument("--moved-one-in", type=whole(1, 1_000), default=8, metavar="N", help=moved_help)
    timing_help = "measure the cost of validation instead, to a file or to standard output"
    parser.add_argument("--timing", nargs="?", action=Timing, metavar="FILE", help=timing_help)


SCRIPT = Script(
    name="triage",
    about="A scripted agent triages a bug tracker with and without the schema, at four levels of refusal.",
    examples="  python triage.py --seeds 1-5\n  python triage.py --timing\n  python triage.py --items 50 --seeds 1-100",
    parts={
        **{run_name(reads_schema, level): partial(run, reads_schema, level) for reads_schema, level in RUNS},
        "versions": version_check,
    },
    figures=figures,
    tables=tables,
    add_options=add_options,
)

if __name__ == "__main__":
    main(SCRIPT)
