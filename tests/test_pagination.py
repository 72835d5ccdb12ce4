"""Pages, cursors and catching up: the post's figures come out, and broken stores are found out."""

import argparse
import contextlib
import io
import json
import unittest
from contextlib import closing
from typing import Any, Callable
from unittest import mock

import bug_tracker
import command_line
import compare
import pagination
import report
from arguments import JSON
from bug_tracker import tracker
from record_store import RecordStore
from report import GroundTruthFailed

OPTIONS = argparse.Namespace(items=23, page=5, changes=2, channel=30, edited=6, opened=4, deleted=2)


def options(**changed: Any) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(OPTIONS), **changed})


def run_on(store_class: Any, part: Callable[..., Any], *arguments: Any) -> Any:
    """The part's counts, on stores of this class."""

    def broken(seed: int, count: int) -> RecordStore:
        return bug_tracker.tracker(seed, count, store_class=store_class)

    with mock.patch("pagination.tracker", broken):
        return part(*arguments, 1, OPTIONS)


class ThePostsFigures(unittest.TestCase):
    """Over the post's five seeds; what is sampled must come near."""

    figures: report.Figures = {}

    @classmethod
    def setUpClass(cls) -> None:
        defaults = command_line.make_parser(pagination.SCRIPT).parse_args(["--jobs", "1"])
        counts = report.add_up(report.measure(pagination.SCRIPT, range(1, 6), defaults))
        cls.figures = pagination.figures(counts, 5)

    def test_every_published_figure_is_measured(self) -> None:
        published = {identifier for identifier in compare.PUBLISHED if identifier.startswith("pagination.")}
        self.assertEqual(set(self.figures), published)

    def test_every_exact_figure_is_equal_and_every_size_within_its_tolerance(self) -> None:
        for identifier, figure in compare.FIGURES.items():
            if identifier in self.figures and figure["kind"] in ("exact", "size"):
                with self.subTest(identifier):
                    shown = f"{self.figures[identifier]} against {figure['value']}"
                    self.assertTrue(compare.fits(self.figures[identifier], identifier), shown)

    def test_full_reads_weigh_about_what_the_post_says(self) -> None:
        # 250 descriptions of 300 to 4,000 characters: their mean has a standard deviation of 3.3 KiB for 50 of them.
        measured = self.figures["pagination.page.full_read_kib"] or 0
        self.assertAlmostEqual(measured, compare.PUBLISHED["pagination.page.full_read_kib"], delta=3 * 3.3)


class Walking(unittest.TestCase):
    def test_offset_pages_overlap_when_bugs_are_opened(self) -> None:
        counts = pagination.walk("inserts", "offset", 1, OPTIONS)
        self.assertEqual(counts["inserts.offset.read_twice"], 2 * (counts["inserts.offset.pages"] - 1))
        self.assertEqual(counts["inserts.offset.never_seen"], 0)

    def test_offset_pages_leave_items_out_when_some_are_deleted(self) -> None:
        counts = pagination.walk("deletes", "offset", 1, OPTIONS)
        self.assertEqual(counts["deletes.offset.read_twice"], 0)
        self.assertEqual(counts["deletes.offset.never_seen"], OPTIONS.items - counts["deletes.offset.item_reads"])
        self.assertGreater(counts["deletes.offset.never_seen"], 0)

    def test_a_cursor_reads_each_item_once_whatever_people_do(self) -> None:
        for change in pagination.CHANGES:
            for items in (1, 4, 5, 6, 23):
                counts = pagination.walk(change, "before_id", 1, options(items=items))
                name = f"{change}.before_id"
                self.assertEqual(counts[f"{name}.item_reads"], items)
                self.assertEqual(counts[f"{name}.pages"], (items + 4) // 5)
                self.assertEqual((counts[f"{name}.read_twice"], counts[f"{name}.never_seen"]), (0, 0))

    def test_nothing_is_lost_by_an_offset_while_nobody_works(self) -> None:
        for change, paging in pagination.WALKS:
            counts = pagination.walk(change, paging, 1, options(changes=0))
            self.assertEqual(counts[f"{change}.{paging}.item_reads"], OPTIONS.items)
            self.assertEqual(counts[f"{change}.{paging}.read_twice"], 0)

    def test_as_many_changes_as_a_page_has_items_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "--changes must be smaller than --page"):
            pagination.walk("inserts", "offset", 1, options(changes=5))


class CatchingUp(unittest.TestCase):
    def test_both_ways_find_all_changes(self) -> None:
        counts = pagination.catch_up(1, OPTIONS)
        self.assertEqual(counts["catchup.relist.found"], 12)
        self.assertEqual(counts["catchup.poll.found"], 12)
        self.assertEqual((counts["catchup.relist.calls"], counts["catchup.poll.calls"]), (7, 1))

    def test_polling_goes_on_while_there_is_more(self) -> None:
        counts = pagination.catch_up(1, options(opened=240))
        self.assertEqual((counts["catchup.poll.calls"], counts["catchup.poll.found"]), (3, 248))

    def test_nothing_changed_is_found_as_nothing(self) -> None:
        counts = pagination.catch_up(1, options(edited=0, opened=0, deleted=0))
        self.assertEqual((counts["catchup.relist.found"], counts["catchup.poll.found"]), (0, 0))
        self.assertEqual(counts["catchup.poll.calls"], 1)

    def test_every_item_can_be_touched_and_no_more(self) -> None:
        pagination.catch_up(1, options(channel=8))
        with self.assertRaisesRegex(ValueError, "more than the 7 items of --channel"):
            pagination.catch_up(1, options(channel=7))


class Weighing(unittest.TestCase):
    def test_sizes_are_bytes_not_characters(self) -> None:
        self.assertEqual(pagination.size({"a": "→"}), len('{"a": "→"}'.encode()))
        self.assertEqual(pagination.size("→"), 5)

    def test_the_schema_comes_with_every_page(self) -> None:
        with closing(tracker(1, 12)) as store:
            pages = pagination.all_pages(store, 5)
        self.assertEqual(len(pages), 3)
        self.assertTrue(all(page["schema"] == pages[0]["schema"] for page in pages))


# Broken in one way each. The door calls tools by keyword, so `sent` is the whole call.


class SkipsOneAtEveryCursor(RecordStore):
    def list_record_items(self, **sent: Any) -> JSON:  # type: ignore[override]
        page = super().list_record_items(**sent)
        return {**page, "items": page["items"][1:]} if "before_id" in sent else page


class LosesTheLastPage(RecordStore):
    def list_record_items(self, **sent: Any) -> JSON:  # type: ignore[override]
        page = super().list_record_items(**sent)
        return {**page, "next_before_id": None} if "before_id" in sent else page


class NeverRaisesVersions(RecordStore):
    def list_record_items(self, **sent: Any) -> JSON:  # type: ignore[override]
        page = super().list_record_items(**sent)
        return {**page, "items": [{**item, "version": 1} for item in page["items"]]}


class LosesAnEvent(RecordStore):
    def poll_resource_events(self, **sent: Any) -> JSON:  # type: ignore[override]
        answer = super().poll_resource_events(**sent)
        return {**answer, "events": answer["events"][1:]}


class CallsDeletionsUpdates(RecordStore):
    def poll_resource_events(self, **sent: Any) -> JSON:  # type: ignore[override]
        answer = super().poll_resource_events(**sent)
        return {**answer, "events": [{**event, "type": "updated"} for event in answer["events"]]}


class CutsTexts(RecordStore):
    def read_record_item(self, **sent: Any) -> JSON:  # type: ignore[override]
        item = super().read_record_item(**sent)
        return {**item, "values": {**item["values"], "description": item["values"]["description"][:200]}}


class BrokenStoresAreFoundOut(unittest.TestCase):
    def fails(self, rule: str, store_class: Any, part: Callable[..., Any], *arguments: Any) -> None:
        run_on(RecordStore, part, *arguments)
        with self.assertRaises(GroundTruthFailed) as failed:
            run_on(store_class, part, *arguments)
        self.assertIn(rule, str(failed.exception))

    def test_a_cursor_that_skips_an_item(self) -> None:
        for change in pagination.CHANGES:
            self.fails(pagination.PAGE_CHECK, SkipsOneAtEveryCursor, pagination.walk, change, "before_id")

    def test_a_cursor_that_ends_too_early(self) -> None:
        self.fails(pagination.CURSOR_CHECK, LosesTheLastPage, pagination.walk, "inserts", "before_id")

    def test_an_offset_in_place_of_the_cursor(self) -> None:
        for change in pagination.CHANGES:
            swapped = mock.patch.dict(pagination.PAGINGS, before_id=pagination.page_by_offset)
            with swapped, self.assertRaises(GroundTruthFailed) as failed:
                pagination.walk(change, "before_id", 1, OPTIONS)
            self.assertIn(pagination.CURSOR_CHECK, str(failed.exception))

    def test_versions_that_stand_still(self) -> None:
        self.fails(pagination.RELIST_CHECK, NeverRaisesVersions, pagination.catch_up)

    def test_a_log_that_loses_an_event(self) -> None:
        self.fails(pagination.POLL_CHECK, LosesAnEvent, pagination.catch_up)

    def test_a_log_that_does_not_tell_what_was_deleted(self) -> None:
        self.fails(pagination.POLL_CHECK, CallsDeletionsUpdates, pagination.catch_up)

    def test_a_read_that_cuts_texts(self) -> None:
        self.fails(pagination.READ_CHECK, CutsTexts, pagination.weigh_page)


class TheScript(unittest.TestCase):
    ARGUMENTS = "--items 12 --page 5 --channel 10 --edited 3 --opened 1 --deleted 1 --seeds 1".split()

    def output(self, *argv: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command_line.main(pagination.SCRIPT, [*self.ARGUMENTS, *argv])
        return out.getvalue()

    def test_the_output_does_not_depend_on_the_number_of_processes(self) -> None:
        self.assertEqual(self.output("--jobs", "1"), self.output("--jobs", "2"))

    def test_figures_come_as_json(self) -> None:
        figures = json.loads(self.output("--jobs", "1", "--json", "-"))["figures"]
        self.assertEqual(figures["pagination.catchup.poll.found"], 5)

    def test_options_that_cannot_be_are_refused(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit) as ended:
            command_line.main(pagination.SCRIPT, ["--page", "2", "--changes", "2", "--seeds", "1", "--jobs", "1"])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("pagination.py: --changes must be smaller than --page, got 2 and 2", errors.getvalue())


class TheOffsetListing(unittest.TestCase):
    def test_it_is_no_tool(self) -> None:
        properties = next(t for t in RecordStore.TOOLS if t["name"] == "list_record_items")["inputSchema"]["properties"]
        self.assertNotIn("offset", properties)

    def test_without_changes_it_lists_what_the_cursor_lists(self) -> None:
        with closing(tracker(1, 12)) as store:
            ids = [item["item_id"] for page in pagination.all_pages(store, 5) for item in page["items"]]
            listed, offset = [], 0
            while offset is not None:
                page, offset = pagination.page_by_offset(store, 5, offset)
                listed += page
        self.assertEqual(listed, ids)


if __name__ == "__main__":
    unittest.main()
