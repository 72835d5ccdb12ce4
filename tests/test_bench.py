"""The floors of the benchmark do what the tools do, and its report can be made. No times are judged here."""

import contextlib
import io
import os
import tempfile
import unittest
from typing import Any
from unittest import mock

import bench
import bench_floor as floor
from arguments import JSON
from bench import KB
from bug_tracker import CHANNEL, FIELDS, item_id, tracker
from field_schema import Schema
from kb_store import KnowledgeBaseStore
from tool_store import ToolStore

COUNT = 150
NOW = 1_900_000_000.0  # later than all that is in the stores


def held(store: ToolStore, *tables: str) -> Any:
    """All that is in the tables, but for the fingerprints that the floors leave out."""
    rows = {table: store.db.execute(f"SELECT * FROM {table}").fetchall() for table in (*tables, "event")}
    keys = "SELECT key, result, resource_type, resource_id, sequence FROM idempotency_key"
    return {**rows, "keys": store.db.execute(keys).fetchall()}


class Articles(unittest.TestCase):
    store: KnowledgeBaseStore

    @classmethod
    def setUpClass(cls) -> None:
        cls.store = bench.knowledge_base(COUNT)
        cls.store.clock = lambda: NOW
        cls.store.db.executescript(floor.FTS5)
        cls.addClassCleanup(cls.store.close)

    def copies(self, count: int) -> Any:
        for _ in range(count):
            copy = KnowledgeBaseStore(clock=lambda: NOW)
            self.addCleanup(copy.close)
            self.store.db.backup(copy.db)
            yield copy

    def test_an_edit_and_its_replay(self) -> None:
        article = self.store.call("read_knowledge_article", {"knowledge_base_id": KB, "article_id": "a7"})
        arguments = ("a7", "New text.", article["citation"]["updated_at"], "key")
        by_tool, by_hand, with_fts5 = self.copies(3)
        for replayed in (False, True):
            expected = bench.tool_edit(by_tool, *arguments)
            self.assertEqual(expected["replayed"], replayed)
            self.assertEqual(floor.edit_article(by_hand.db, KB, *arguments, now=NOW), expected)
            self.assertEqual(floor.edit_article(with_fts5.db, KB, *arguments, now=NOW, with_fts5=True), expected)
        for store in (by_hand, with_fts5):
            self.assertEqual(held(store, "article"), held(by_tool, "article"))
        with_fts5.db.execute("INSERT INTO plain_index (plain_index) VALUES ('integrity-check')")

    def test_an_edit_with_an_old_version_leaves_no_trace(self) -> None:
        before = held(self.store, "article")
        with self.assertRaises(floor.Conflict):
            floor.edit_article(self.store.db, KB, "a7", "Text", "2020-01-01T00:00:00.000000Z", "key", now=NOW)
        self.assertEqual(held(self.store, "article"), before)

    def test_a_read_and_a_poll(self) -> None:
        read = self.store.call("read_knowledge_article", {"knowledge_base_id": KB, "article_id": "a7"})
        self.assertEqual(floor.read_article(self.store.db, KB, "a7"), read)
        for after in (0, 20, COUNT):
            arguments = {"resource_type": "knowledge_base", "resource_id": KB, "after_sequence": after}
            polled = self.store.call("poll_resource_events", arguments)
            self.assertEqual(floor.poll(self.store.db, KB, after), polled)

    def test_searches_find_the_same_articles(self) -> None:
        """Each ranks in its own way, so only those that find fewer than they may are compared."""
        compared = 0
        for words in bench.queries(COUNT):
            found = by_id(bench.search(self.store, words))
            self.assertIn(words[0], [title.split()[0].lower() for _, title in found.values()])
            if len(found) < bench.FOUND:
                self.assertEqual(by_id(floor.search_fts5(self.store.db, KB, bench.FOUND, words)), found)
                self.assertEqual(by_id(floor.search_scan(self.store.db, KB, bench.FOUND, words)), found)
                compared += 1
        self.assertGreater(compared, 3)


def by_id(answer: JSON) -> Any:
    return {hit["citation"]["article_id"]: (hit["snippet"], hit["title"]) for hit in answer["results"]}


class Items(unittest.TestCase):
    def test_an_edit_and_its_replay(self) -> None:
        with contextlib.closing(tracker(1, COUNT)) as by_tool, contextlib.closing(tracker(1, COUNT)) as by_hand:
            by_tool.clock = lambda: NOW
            for turn, values in enumerate(bench.six_values()[:40]):
                arguments = (item_id(turn + 1), values, 1, f"key {turn}")
                for replayed in (False, True):
                    expected = bench.tool_item_edit(by_tool, *arguments)
                    self.assertEqual(expected["replayed"], replayed)
                    self.assertEqual(floor.edit_item(by_hand.db, CHANNEL, *arguments, NOW), expected)
            self.assertEqual(held(by_hand, "record_item"), held(by_tool, "record_item"))
            by_hand.check()
            with self.assertRaises(floor.Conflict):
                floor.edit_item(by_hand.db, CHANNEL, item_id(1), {}, 1, "another", NOW)

    def test_reads_and_pages(self) -> None:
        schema = Schema(FIELDS, 1).page_text
        with contextlib.closing(tracker(1, COUNT)) as store:
            store.clock = lambda: NOW
            read = store.call("read_record_item", {"record_channel_id": CHANNEL, "item_id": item_id(9)})
            self.assertEqual(floor.read_item(store.db, CHANNEL, NOW, item_id(9)), read)
            for place in (COUNT - 3, 60, 51, 50, 1):
                arguments = {"record_channel_id": CHANNEL, "before_id": item_id(place)}
                page = store.call("list_record_items", arguments)
                self.assertEqual(floor.list_items(store.db, CHANNEL, schema, item_id(place)), page)
                by_offset = floor.list_items_by_offset(store.db, CHANNEL, schema, COUNT - place + 1)
                self.assertEqual(by_offset, page)

    def test_a_value_of_each_type(self) -> None:
        schema = Schema(floor.ALL_TYPES, 1)
        self.assertEqual(set(floor.BARE_CHECKS), {*floor.VALUES, "formula"})
        self.assertEqual(schema.problems(floor.VALUES), {})
        self.assertTrue(floor.all_fit(floor.VALUES))
        for key in floor.VALUES.keys() - {"json"}:
            self.assertIn(key, schema.problems({key: -1}))
            self.assertFalse(floor.all_fit({key: -1}), key)
        self.assertFalse(floor.all_fit({"formula": 1}))


class Report(unittest.TestCase):
    def test_an_interrupt_is_said_in_one_line(self) -> None:
        with mock.patch("bench.measure_article_edits", side_effect=KeyboardInterrupt):
            with self.assertRaisesRegex(SystemExit, "^bench.py: interrupted$"):
                bench.main(["--quick"])

    def test_a_tiny_run(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "bench.md")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                bench.main(["--rows", "150,300", "--repeats", "2", "--seeds", "1", "--output", path])
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), printed.getvalue())
        lines = printed.getvalue().splitlines()
        tables = [line for line in lines if line.startswith("|")]
        self.assertEqual({line.count("|") for line in tables}, {9, 7})
        for text in (
            "edit an article, on a WAL file",
            "log of 300",
            "of 300 items, deep",
            "sim.py --seeds 1",
            "Python",
        ):
            self.assertIn(text, printed.getvalue())
        self.assertRegex(printed.getvalue(), r"\| (met|missed) ")

    def test_wrong_options_get_one_line(self) -> None:
        for wrong in (["--rows", "10"], ["--rows", "x"], ["--repeats", "1"], ["--nothing"]):
            errors = io.StringIO()
            with self.subTest(wrong), contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as left:
                bench.main(wrong)
            self.assertEqual(left.exception.code, 2)
            self.assertEqual(errors.getvalue().count("\n"), 1)

    def test_digits_that_count(self) -> None:
        texts = [bench.digits(value) for value in (0.01234, 0.1234, 1.234, 12.34, 1234.5)]
        self.assertEqual(texts, ["0.0123", "0.12", "1.23", "12.3", "1,234"])

    def test_a_target_is_met_up_to_itself(self) -> None:
        self.assertEqual(bench.verdict(1.6, 1.6), ["<= 1.6", "met"])
        self.assertEqual(bench.verdict(1.61, 1.6), ["<= 1.6", "missed"])
        self.assertEqual(bench.verdict(9, None), ["", ""])


if __name__ == "__main__":
    unittest.main()
