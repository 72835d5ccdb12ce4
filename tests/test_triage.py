"""The triage: what the agent can repair, what each run must save, and that broken stores are found out."""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Callable, Dict, List
from unittest import mock

import bug_tracker
import command_line
import compare
import triage
from arguments import JSON, ToolError
from bug_tracker import CHOICES, FIELDS, intentions, new_bugs
from record_store import RecordStore
from report import GroundTruthFailed
from triage import LEVELS, day_named, matching_option, repaired

ITEMS = 40
OPTIONS = argparse.Namespace(items=ITEMS, moved_one_in=8)
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def options_of(key: str) -> List[JSON]:
    options: List[JSON] = next(field for field in FIELDS if field["key"] == key)["config"]["options"]
    return options


def run_on(store_class: Any, part: Callable[..., Any], *arguments: Any) -> Any:
    """The part's counts, on stores of this class."""

    def broken(seed: int, count: int, refusal: str = "labels") -> RecordStore:
        return bug_tracker.tracker(seed, count, refusal, store_class)

    with mock.patch("triage.tracker", broken):
        return part(*arguments, 1, OPTIONS)


class WhatPeopleMean(unittest.TestCase):
    def test_every_word_of_a_select_is_a_label_of_its_value_but_for_major(self) -> None:
        for key in ("status", "owner", "severity", "area"):
            labels = {option["label"]: option["value"] for option in options_of(key)}
            for meant in CHOICES[key]:
                self.assertEqual(meant.value, "s2" if meant.words == "major" else labels[meant.words])

    def test_nobody_wants_new(self) -> None:
        self.assertNotIn("new", [meant.value for meant in CHOICES["status"]])

    def test_no_word_is_its_own_value_in_a_select(self) -> None:
        for key in ("status", "owner", "severity", "area"):
            self.assertTrue(all(meant.words != meant.value for meant in CHOICES[key]), key)

    def test_a_seed_always_means_the_same(self) -> None:
        bugs = new_bugs(1, ITEMS)
        self.assertEqual(intentions(1, bugs), intentions(1, bugs))
        self.assertNotEqual(intentions(1, bugs), intentions(2, bugs))

    def test_choices_are_equally_likely(self) -> None:
        meant = intentions(1, new_bugs(1, 2_000)).values()
        for key, choices in CHOICES.items():
            for choice in choices:
                found = sum(intention[key] == choice for intention in meant)
                self.assertAlmostEqual(found / 2_000, 1 / len(choices), delta=0.05)
        self.assertAlmostEqual(sum(intention["due"].words == "Friday" for intention in meant) / 2_000, 0.5, delta=0.05)


class WhatTheAgentCanMatch(unittest.TestCase):
    def test_a_label_is_matched_in_any_case(self) -> None:
        self.assertEqual(matching_option("WON'T FIX", options_of("status")), "wont_fix")

    def test_a_value_is_matched_but_for_case_and_spaces(self) -> None:
        self.assertEqual(matching_option("In progress", [{"value": "in_progress"}]), "in_progress")

    def test_a_value_is_matched_as_a_word_of_the_phrase(self) -> None:
        self.assertEqual(matching_option("S2 Major", [{"value": "s1"}, {"value": "s2"}]), "s2")

    def test_a_phrase_is_matched_as_a_word_of_a_label(self) -> None:
        self.assertEqual(matching_option("major", options_of("severity")), "s2")

    def test_values_alone_do_not_tell_wont_fix_nor_major(self) -> None:
        for key, words in (("status", "Won't fix"), ("severity", "major")):
            self.assertIsNone(matching_option(words, [{"value": option["value"]} for option in options_of(key)]))

    def test_what_two_options_can_mean_is_not_guessed(self) -> None:
        twice = [{"value": "s1", "label": "S1 Major"}, {"value": "s2", "label": "S2 Major"}]
        self.assertIsNone(matching_option("major", twice))

    def test_a_weekday_is_the_next_one(self) -> None:
        self.assertEqual(day_named("Friday"), "2026-11-13")
        self.assertEqual(day_named("monday"), "2026-11-16")  # the conversation is on a Monday
        self.assertIsNone(day_named("2026-11-20"))

    def test_a_date_is_repaired_only_if_the_reason_says_what_a_date_looks_like(self) -> None:
        self.assertEqual(repaired("Friday", {"key": "due", "message": "must be a date as YYYY-MM-DD"}), "2026-11-13")
        self.assertIsNone(repaired("Friday", {"key": "due"}))

    def test_a_number_is_never_cut_to_the_range(self) -> None:
        self.assertIsNone(repaired(20, {"key": "points", "message": "must be between 0 and 13", "min": 0, "max": 13}))


class TheEightRuns(unittest.TestCase):
    """What each run has to save follows from the intentions alone."""

    counts: Dict[str, float] = {}
    in_range: int  # intentions with points that the channel can hold
    too_many: int  # and with 20
    iso_dates: int
    unmatched: int  # words that a list of values does not tell

    @classmethod
    def setUpClass(cls) -> None:
        for reads_schema, level in triage.RUNS:
            cls.counts.update(triage.run(reads_schema, level, 1, OPTIONS))
        meant = list(intentions(1, new_bugs(1, ITEMS)).values())
        cls.in_range = sum(intention["points"].value is not None for intention in meant)
        cls.iso_dates = sum(intention["due"].words != "Friday" for intention in meant)
        cls.unmatched = sum(
            (intention["status"].words == "Won't fix") + (intention["severity"].words == "major") for intention in meant
        )
        cls.too_many = ITEMS - cls.in_range

    def saved(self, run: str, saved: int, calls: int) -> None:
        self.assertEqual(self.counts[f"{run}.saved"], saved)
        self.assertEqual(self.counts[f"{run}.handed"], 6 * ITEMS - saved)
        self.assertEqual(self.counts[f"{run}.edit_calls"], calls)

    def test_the_sample_has_all_the_cases(self) -> None:
        self.assertTrue(self.too_many and self.unmatched and 0 < self.iso_dates < ITEMS)

    def test_without_schema_and_reasons_only_numbers_and_iso_dates_get_through(self) -> None:
        self.saved("no_schema.terse", self.in_range + self.iso_dates, 7 * ITEMS)
        self.saved("no_schema.field", self.in_range + self.iso_dates, 2 * ITEMS)

    def test_allowed_values_recover_all_but_wont_fix_and_major(self) -> None:
        self.saved("no_schema.values", 5 * ITEMS + self.in_range - self.unmatched, 2 * ITEMS)

    def test_labels_in_the_refusal_recover_everything_that_fits(self) -> None:
        self.saved("no_schema.labels", 5 * ITEMS + self.in_range, 2 * ITEMS)

    def test_with_the_schema_everything_that_fits_is_saved_whatever_the_refusal_says(self) -> None:
        self.saved("schema.terse", 5 * ITEMS + self.in_range, ITEMS + 6 * self.too_many)
        for level in ("field", "values", "labels"):
            self.saved(f"schema.{level}", 5 * ITEMS + self.in_range, ITEMS + self.too_many)


# Broken in one way each. The door calls tools by keyword, so `sent` is the whole call.


class CutsNumbers(RecordStore):
    def edit_record_item(self, **sent: Any) -> JSON:  # type: ignore[override]
        if sent["values"].get("points") == 20:
            sent["values"] = {**sent["values"], "points": 13}
        return super().edit_record_item(**sent)


class SavesInPart(RecordStore):
    def edit_record_item(self, **sent: Any) -> JSON:  # type: ignore[override]
        try:
            return super().edit_record_item(**sent)
        except ToolError as refused:
            failing = [field["key"] for field in refused.payload["fields"]]
        sent["values"] = {key: value for key, value in sent["values"].items() if key not in failing}
        return super().edit_record_item(**sent)


class WritesMore(RecordStore):
    def edit_record_item(self, **sent: Any) -> JSON:  # type: ignore[override]
        sent["values"] = {**sent["values"], "reporter": "Codex"}
        return super().edit_record_item(**sent)


class IgnoresTheVersion(RecordStore):
    def edit_record_item(self, **sent: Any) -> JSON:  # type: ignore[override]
        item = self.read_record_item(sent["record_channel_id"], sent["item_id"])
        return super().edit_record_item(**{**sent, "expected_version": item["version"]})


class WritesDespiteAConflict(RecordStore):
    def edit_record_item(self, **sent: Any) -> JSON:  # type: ignore[override]
        try:
            return super().edit_record_item(**sent)
        except ToolError:
            self.update_item(sent["record_channel_id"], sent["item_id"], sent["values"])
            raise


class BrokenStoresAreFoundOut(unittest.TestCase):
    def fails(self, rule: str, store_class: Any, part: Callable[..., Any], *arguments: Any) -> None:
        run_on(RecordStore, part, *arguments)
        with self.assertRaises(GroundTruthFailed) as failed:
            run_on(store_class, part, *arguments)
        self.assertIn(rule, str(failed.exception))

    def test_a_store_that_takes_labels_for_values(self) -> None:
        self.fails(triage.SAVED_CHECK, triage.Unvalidated, mostly_small_numbers, False, "labels")

    def test_a_store_that_takes_numbers_out_of_range(self) -> None:
        self.fails(triage.REFUSED_CHECK, triage.Unvalidated, triage.run, True, "labels")

    def test_a_store_that_cuts_numbers_to_the_range(self) -> None:
        self.fails(triage.REFUSED_CHECK, CutsNumbers, triage.run, True, "labels")

    def test_a_store_that_saves_what_fits_and_reports_success(self) -> None:
        self.fails(triage.SAVED_CHECK, SavesInPart, mostly_small_numbers, False, "labels")
        self.fails(triage.REFUSED_CHECK, SavesInPart, triage.run, True, "labels")

    def test_a_store_that_changes_other_fields_too(self) -> None:
        self.fails(triage.REST_CHECK, WritesMore, triage.run, True, "labels")

    def test_a_store_that_ignores_the_version(self) -> None:
        self.fails(triage.MOVED_CHECK, IgnoresTheVersion, triage.version_check)

    def test_a_store_that_refuses_and_writes_all_the_same(self) -> None:
        self.fails(triage.END_CHECK, WritesDespiteAConflict, triage.version_check)


def mostly_small_numbers(*arguments: Any) -> Any:
    """triage.run where nobody says 20 points, so that the first field to fail is a select."""
    with mock.patch.dict(CHOICES, points=CHOICES["points"][:-1]):
        return triage.run(*arguments)


class TheVersionCheck(unittest.TestCase):
    def test_conflicts_under_one_strategy_are_the_overwritten_edits_of_the_other(self) -> None:
        counts = triage.version_check(1, OPTIONS)
        self.assertGreater(counts["versions.read_version.conflicts"], 0)
        self.assertEqual(counts["versions.read_version.conflicts"], counts["versions.fresh_version.overwritten"])
        self.assertEqual(counts["versions.read_version.overwritten"], 0)
        self.assertEqual(counts["versions.fresh_version.conflicts"], 0)


class TheScript(unittest.TestCase):
    def output(self, *argv: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command_line.main(triage.SCRIPT, ["--jobs", "1", *argv])
        return out.getvalue()

    def test_it_has_every_published_figure_but_times(self) -> None:
        document = json.loads(self.output("--items", "8", "--seeds", "1", "--json", "-"))
        expected = {i for i, f in compare.FIGURES.items() if i.startswith("triage.") and f["kind"] != "timing"}
        self.assertLessEqual(expected, document["figures"].keys())

    def test_published_figures_stand_beside_ours_only_with_the_posts_options(self) -> None:
        self.assertNotIn("published", self.output("--items", "8", "--seeds", "1"))

    def test_the_calls_that_are_exact_come_out(self) -> None:
        figures = json.loads(self.output("--items", "8", "--seeds", "1", "--json", "-"))["figures"]
        for level in LEVELS:
            identifier = f"triage.no_schema.{level}.edit_calls_per_item"
            self.assertTrue(compare.fits(figures[identifier], identifier), identifier)

    def test_the_output_depends_on_neither_hash_seed_nor_processes(self) -> None:
        outputs = {
            subprocess.run(
                [sys.executable, "triage.py", "--items", "8", "--seeds", "1-2", "--jobs", jobs],
                cwd=HERE,
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
            for hash_seed, jobs in (("1", "1"), ("2", "2"))
        }
        self.assertEqual(len(outputs), 1)

    def test_an_interrupted_timing_says_so_in_one_line(self) -> None:
        with mock.patch("triage.timing", side_effect=KeyboardInterrupt):
            with self.assertRaisesRegex(SystemExit, "^triage.py: interrupted$"):
                command_line.main(triage.SCRIPT, ["--timing"])

    def test_timing_measures_both_stores_and_runs_nothing_else(self) -> None:
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple("triage", TIMED_EDITS=20, TIMED_RUNS=2):
            path = os.path.join(folder, "timing.txt")
            with self.assertRaises(SystemExit) as ended:
                command_line.main(triage.SCRIPT, ["--timing", path])
            with open(path, encoding="utf-8") as file:
                text = file.read()
        self.assertFalse(ended.exception.code)
        self.assertIn("ratio of the medians", text)
        self.assertNotIn("fields saved", text)


if __name__ == "__main__":
    unittest.main()
