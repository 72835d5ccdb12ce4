"""Hostile input: every call is answered by a result or a refusal, and a refused call leaves no trace.

Seeded: `SEED=7 TIMES=50 python -m unittest tests.test_hostile_input` tries fifty times as many cases of another seed.
A failure names its seed and case, and what was called.
"""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import unittest
from typing import Any, Callable, Dict, List, Tuple

from arguments import JSON
from kb_store import KnowledgeBaseStore
from record_store import RecordStore
from tests import hostile
from tests.hostile import SEED, TIMES, Watch, answer, described, spoilt, value
from tests.record_case import NOW, field, options
from tool_store import CheckFailed

CASES = 8_000 * TIMES  # for each test of each store

Call = Tuple[Callable[..., Any], Tuple[Any, ...]]
READERS = ("read_knowledge_article", "list_record_items", "read_record_item", "poll_resource_events")


class Fuzz(unittest.TestCase):
    """A store on a file, a watch over it, and a clock that stands still, runs back or leaps."""

    def setUp(self) -> None:
        self.rng = random.Random(SEED)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "store.db")
        self.store = self.open()
        self.addCleanup(self.store.close)
        self.watch = Watch(self.path)
        self.addCleanup(self.watch.close)

    def open(self) -> Any:
        raise NotImplementedError

    def clock(self) -> float:
        return self.rng.choice((NOW, NOW, NOW + 0.5, NOW - 1e6, NOW + 1e6, 0.0, -1.0))

    def survive(self, cases: int, case: Callable[[], Call]) -> None:
        for number in range(cases):
            act, arguments = case()
            try:
                kind, found = answer(act, *arguments)
                changed = self.watch.changed()
                if changed and (kind == "refused" or (act == self.store.call and arguments[0] in READERS)):
                    raise AssertionError("it was refused, or reads only, and changed the file")
                if changed and isinstance(found, dict) and found.get("replayed"):
                    raise AssertionError("a replay changed the file")
                if self.store.db.in_transaction:
                    raise AssertionError("it left a transaction open")
            except Exception as error:
                self.fail(
                    f"SEED={SEED}, case {number}: {getattr(act, '__name__', act)}{described(arguments)}\n"
                    f"{type(error).__name__}: {error}"
                )
        self.store.check()

    def tool_call(self) -> Call:
        name = self.rng.choice([tool["name"] for tool in self.store.TOOLS])
        arguments: Any = self.good(name)
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3))):
            arguments = spoilt(self.rng, arguments)
        return self.store.call, (name if self.rng.random() < 0.99 else value(self.rng), arguments)

    def good(self, name: str) -> JSON:
        """Arguments that fit the tool, if not always the store's state."""
        raise NotImplementedError

    def poll(self, *resources: str) -> JSON:
        return {
            "resource_type": self.store.resource_type, "resource_id": self.rng.choice(resources),
            "after_sequence": self.rng.choice((0, 1, 5, 10**6, 2**63 - 1)), "limit": self.rng.randint(1, 100),
        }  # fmt: skip

    def key(self) -> str:
        """A new key, or one of a few that come again and again."""
        return str(self.rng.random()) if self.rng.random() < 0.8 else f"key-{self.rng.randrange(20)}"


class KnowledgeBaseFuzz(Fuzz):
    IDS = ("a000001", "a000002", "draft", "unknown")
    CHANGERS = ("create_article", "save_article", "retitle_article", "publish_article", "unpublish_article")

    def open(self) -> KnowledgeBaseStore:
        store = KnowledgeBaseStore(self.path, self.clock, granted=["kb"])
        store.create_knowledge_base("kb")
        for title in ("Refunds in Zürich", "Invoices"):
            store.create_article("kb", title, f"{title}: what to do about them.")
        store.create_article("kb", "Draft", "…", "draft", published=False)
        return store

    def good(self, name: str) -> JSON:
        rng = self.rng
        if name == "poll_resource_events":
            return self.poll("kb", "unknown")
        if name == "search_knowledge_base":
            return {"knowledge_base_id": "kb", "query": hostile.text(rng), "limit": rng.randint(1, 20)}
        article = {"knowledge_base_id": "kb", "article_id": rng.choice(self.IDS)}
        if name == "read_knowledge_article":
            return article
        row = self.store.db.execute("SELECT updated_at FROM article WHERE article_id = ?", [article["article_id"]])
        version = (row.fetchone() if rng.random() < 0.8 else None) or ["2026-11-08T09:00:00Z"]
        edit = {**article, "content": hostile.text(rng), "expected_version": version[0], "idempotency_key": self.key()}
        return edit if rng.random() < 0.5 else {**edit, "title": hostile.text(rng)}

    def peoples_call(self) -> Call:
        rng = self.rng
        name = rng.choice(("create_knowledge_base", *self.CHANGERS))
        arguments: List[Any] = [rng.choice(("kb", "kb", "kb", "unknown"))]
        if name == "create_article":
            arguments += [
                hostile.text(rng),
                hostile.text(rng),
                rng.choice((None, hostile.text(rng))),
                rng.random() < 0.8,
            ]
        elif name != "create_knowledge_base":
            arguments.append(rng.choice(self.IDS))
        if name in ("save_article", "retitle_article"):
            arguments.append(hostile.text(rng))
        if rng.random() < 0.6:
            arguments[rng.randrange(len(arguments))] = value(rng)
        return getattr(self.store, name), tuple(arguments)

    def test_every_tool_call_is_answered_and_a_refused_one_changes_nothing(self) -> None:
        self.survive(CASES, self.tool_call)

    def test_every_call_of_peoples_side_is_answered_and_a_refused_one_changes_nothing(self) -> None:
        self.survive(CASES // 3, self.peoples_call)

    def test_a_search_finds_its_way_through_whatever_was_saved(self) -> None:
        for text in hostile.TEXTS:
            answer(self.store.create_article, "kb", text, text)
        for text in hostile.TEXTS:
            answer(self.store.call, "search_knowledge_base", {"knowledge_base_id": "kb", "query": text, "limit": 20})
        self.store.check()


ALL_TYPES = [
    field("ticket", "text", {"max_length": 50}, required=True, unique=True),
    field("amount", "number", {"min": -5, "max": 20}),
    field("due", "date"),
    field("done", "boolean"),
    field("mail", "email", unique=True),
    field("call", "phone"),
    field("link", "url"),
    field("status", "select", options(new="New", done="Done")),
    field("tags", "multi_select", options(a="A", b="B")),
    field("price", "currency", {"currency": "EUR"}, unique=True),
    field("share", "percentage"),
    field("stars", "rating", {"max_stars": 3}),
    field("parent", "relation", {"record_channel_id": "items"}),
    field("paper", "file"),
    field("anything", "json", unique=True),
    field("age", "formula", {"expression": "days_since(due) * (amount + 1.5) / price"}),
]
GOOD: Dict[str, List[Any]] = {
    "ticket": ["T-1", "T-2", "日本"], "amount": [0, -5, 20, 1.5], "due": ["2026-11-08", "2024-02-29", "9999-12-31"],
    "done": [True, False], "mail": ["a@example.com"], "call": ["+39 06 1234 5678"], "link": ["https://example.com/x"],
    "status": ["new", "done"], "tags": [[], ["a"], ["a", "b"]], "price": [1, 1.0, 1e300, -0.0, 2**63 - 1],
    "share": [0, 12.5, 100], "stars": [1, 3], "parent": ["item-000001", "item-000002"],
    "paper": [{"name": "a.pdf", "url": "https://example.com/a.pdf", "size": 1, "media_type": "application/pdf"}],
    "anything": [1, 1.0, [1, {"a": None}], "x", None, False, {}],
}  # fmt: skip


class RecordFuzz(Fuzz):
    PEOPLES = ("create_channel", "change_schema", "delete_item", *["create_item"] * 3, *["update_item"] * 3)

    def open(self) -> RecordStore:
        store = RecordStore(self.path, self.clock, granted=["items"])
        store.create_channel("items", ALL_TYPES)
        store.create_channel("hidden", ALL_TYPES)
        store.create_item("items", {"ticket": "one"})
        store.create_item("items", {"ticket": "two"})
        store.create_item("items", {"ticket": "three"}, "gone")
        store.delete_item("items", "gone")
        return store

    def values(self) -> JSON:
        keys = self.rng.sample(list(GOOD), self.rng.randint(0, 4))
        values = {key: self.rng.choice([None, *GOOD[key]]) for key in keys}
        return values if self.rng.random() < 0.6 else {**values, self.rng.choice(list(GOOD)): value(self.rng)}

    def item(self) -> str:
        newest = "SELECT item_id FROM record_item WHERE NOT deleted ORDER BY position DESC LIMIT 4"
        there: List[str] = [item_id for (item_id,) in self.store.db.execute(newest)]
        return self.rng.choice([*there, "gone", "unknown"])

    def good(self, name: str) -> JSON:
        rng = self.rng
        channel = {"record_channel_id": rng.choice(("items", "items", "items", "hidden"))}
        if name == "poll_resource_events":
            return self.poll("items", "hidden")
        if name == "list_record_items":
            return {**channel, "limit": rng.randint(1, 50), "before_id": self.item()}
        item = {**channel, "item_id": self.item()}
        if name == "read_record_item":
            return item
        row = self.store.db.execute("SELECT version FROM record_item WHERE item_id = ?", [item["item_id"]])
        version = (row.fetchone() or [1])[0] + rng.choice((0, 0, 0, 1))
        return {**item, "values": self.values(), "expected_version": version, "idempotency_key": self.key()}

    def peoples_call(self) -> Call:
        rng = self.rng
        name = rng.choice(self.PEOPLES)
        arguments: List[Any] = [rng.choice(("items", "items", "hidden", "unknown", hostile.text(rng)))]
        if name in ("create_channel", "change_schema"):
            arguments.append(rng.sample(ALL_TYPES, rng.randint(1, 16)))
        if name == "create_item":
            arguments.append({"ticket": str(rng.random()), **self.values()})
        if name in ("create_item", "update_item", "delete_item"):
            arguments.append(rng.choice((self.item(), self.item(), hostile.text(rng))))
        if name == "update_item":
            arguments.append(self.values())
        if rng.random() < 0.5:
            place = rng.randrange(len(arguments))
            arguments[place] = spoilt(rng, arguments[place])
        return getattr(self.store, name), tuple(arguments)

    def test_every_tool_call_is_answered_and_a_refused_one_changes_nothing(self) -> None:
        self.survive(CASES, self.tool_call)

    def test_every_call_of_peoples_side_is_answered_and_a_refused_one_changes_nothing(self) -> None:
        self.survive(CASES // 3, self.peoples_call)


class SharedFile(unittest.TestCase):
    """Both stores on one file and, at the worst, with the same ids in it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "store.db")
        self.now = NOW
        self.articles = KnowledgeBaseStore(self.path, clock=lambda: self.now)
        self.addCleanup(self.articles.close)
        self.records = RecordStore(self.path, clock=lambda: self.now)
        self.addCleanup(self.records.close)
        self.articles.create_knowledge_base("same")
        self.articles.create_article("same", "Title", "Content", "one")
        self.records.create_channel("same", ALL_TYPES)
        self.records.create_item("same", {"ticket": "T-1"}, "one")

        self.watch = Watch(self.path)
        self.addCleanup(self.watch.close)

    def article_edit(self, key: str, base: str = "same") -> Call:
        version = self.articles.read_knowledge_article(base, "one")["citation"]["updated_at"]
        return self.articles.call, ("edit_knowledge_article", {
            "knowledge_base_id": base, "article_id": "one", "content": "New",
            "expected_version": version, "idempotency_key": key,
        })  # fmt: skip

    def item_edit(self, key: str, channel: str = "same") -> Call:
        version = self.records.read_record_item(channel, "one")["version"]
        return self.records.call, ("edit_record_item", {
            "record_channel_id": channel, "item_id": "one", "values": {"amount": 3},
            "expected_version": version, "idempotency_key": key,
        })  # fmt: skip

    def edits(self) -> List[Call]:
        return [self.article_edit("article"), self.item_edit("item")]


class Watching(SharedFile):
    def test_a_watch_sees_a_change_to_any_table_but_not_what_is_rolled_back(self) -> None:
        self.articles.search_knowledge_base("same", "title")
        for edit, arguments in self.edits():
            edit(*arguments)
        db = self.articles.db
        db.executescript("PRAGMA foreign_keys = OFF; DROP TRIGGER event_is_never_deleted")
        # Among them are those in which the index keeps its words; the virtual table has no rows of its own.
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'article_index'"
        seen = []
        for (table,) in db.execute(names).fetchall():
            self.watch.changed()
            db.execute("BEGIN IMMEDIATE")
            rows = db.execute(f"DELETE FROM {table}").rowcount
            db.execute("ROLLBACK")
            self.assertFalse(self.watch.changed(), table)
            db.execute(f"DELETE FROM {table}")
            self.assertEqual(self.watch.changed(), rows > 0, table)
            seen += [table] if rows else []
        self.assertLessEqual({"article", "event", "idempotency_key", "record_item", "article_index_data"}, set(seen))


class Spoiled(SharedFile):
    """A check proves something only if it fails on a file that is not as it should be, whatever stands in it."""

    STATEMENTS = (
        *[f"UPDATE idempotency_key SET result = '{text}'" for text in ("", "{", "[]", "null", "7", "{}")],
        "UPDATE idempotency_key SET sequence = NULL",
        "UPDATE knowledge_base SET number = 7",
        "UPDATE knowledge_base SET indexed_sequence = 7",
        "UPDATE knowledge_base SET indexed_sequence = -1",
        "UPDATE knowledge_base SET indexed_sequence = 'x'",
        "UPDATE record_item SET created_at = '2030-01-01T00:00:00.000000Z'",
        "UPDATE record_item SET updated_at = 'yesterday'",
    )

    def test_each_is_found(self) -> None:
        for edit, arguments in self.edits():
            edit(*arguments)
        for statement in self.STATEMENTS:
            self.articles.check()
            self.records.check()
            self.articles.db.execute("PRAGMA foreign_keys = OFF")
            before = list(self.articles.db.execute(f"SELECT * FROM {statement.split()[1]}"))
            self.articles.db.execute(statement)
            broken = 0
            for store in (self.articles, self.records):
                try:
                    store.check()
                except CheckFailed:
                    broken += 1
            self.assertGreater(broken, 0, statement)
            marks = ", ".join("?" * len(before[0]))
            self.articles.db.executemany(f"REPLACE INTO {statement.split()[1]} VALUES ({marks})", before)


class Rules(SharedFile):
    """What the random calls above would find too, if less often, under its own name."""

    def tearDown(self) -> None:
        self.articles.check()
        self.records.check()

    def refused(self, act: Callable[..., Any], *arguments: Any) -> str:
        """The error code of a refusal, which has changed nothing."""
        self.watch.changed()
        kind, payload = answer(act, *arguments)
        self.assertEqual((kind, self.watch.changed()), ("refused", False), payload)
        error: str = payload["error"]
        return error

    def test_only_jsons_own_types_are_arguments(self) -> None:
        evil = (hostile.PlainStr("same"), *hostile.NOT_JSON)
        for store, name in ((self.articles, "search_knowledge_base"), (self.records, "list_record_items")):
            for bad in evil:
                with self.subTest(name, bad=type(bad)):
                    arguments = {"knowledge_base_id": "same", "record_channel_id": "same", "query": "abc"}
                    self.assertEqual(self.refused(store.call, name, bad), "invalid_arguments")
                    self.assertEqual(self.refused(store.call, bad, {}), "unknown_tool")
                    for argument in arguments:
                        self.assertEqual(self.refused(store.call, name, {argument: bad}), "invalid_arguments")

    def test_two_stores_may_share_a_file_and_ids(self) -> None:
        for key in ("1", "2"):
            for edit, arguments in (self.article_edit("a" + key), self.item_edit("i" + key)):
                edit(*arguments)
        self.assertEqual(self.articles.latest_sequence("same"), 3)
        self.assertEqual(self.records.latest_sequence("same"), 3)

    def test_a_key_belongs_to_one_edit_of_its_resource(self) -> None:
        """In another resource of either kind, under the same id even, it is another key."""
        self.articles.create_knowledge_base("other")
        self.articles.create_article("other", "Title", "Content", "one")
        self.records.create_channel("other", ALL_TYPES)
        self.records.create_item("other", {"ticket": "T-1"}, "one")
        for base in ("same", "other"):
            for edit, (name, arguments) in (self.article_edit("k", base), self.item_edit("k", base)):
                self.assertIs(edit(name, arguments)["replayed"], False)
                self.assertIs(edit(name, arguments)["replayed"], True)
                self.assertEqual(
                    self.refused(
                        edit, name, {**arguments, "item_id" if "values" in arguments else "article_id": "two"}
                    ),
                    "idempotency_key_reused",
                )

    def test_a_key_tells_nothing_about_a_resource_that_is_not_granted(self) -> None:
        """An edit that cannot succeed gets the same answer whether or not somebody has used its key elsewhere."""
        self.articles.create_knowledge_base("secret")
        self.articles.create_article("secret", "Title", "Content", "one")
        for edit, arguments in (self.article_edit("used", "secret"), self.item_edit("used")):
            edit(*arguments)
        self.articles.granted = frozenset(["same"])
        name, arguments = self.article_edit("unused")[1]
        answers = [
            answer(self.articles.call, name, {**arguments, "article_id": "none", "idempotency_key": key})
            for key in ("used", "unused")
        ]
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0][1]["error"], "not_found")

    def test_a_replay_outlives_whatever_happens_to_its_subject(self) -> None:
        calls = self.edits()
        first = [edit(*arguments) for edit, arguments in calls]
        self.articles.unpublish_article("same", "one")
        self.records.change_schema("same", ALL_TYPES[:1])
        self.records.delete_item("same", "one")
        self.watch.changed()
        self.assertEqual(
            [edit(*arguments) for edit, arguments in calls], [{**result, "replayed": True} for result in first]
        )
        self.assertFalse(self.watch.changed())

    def test_a_replay_is_not_for_one_who_has_lost_the_grant(self) -> None:
        for (edit, arguments), store in zip(self.edits(), (self.articles, self.records)):
            edit(*arguments)
            store.granted = frozenset(["other"])
            self.assertEqual(self.refused(edit, *arguments), "not_found")

    def test_a_cursor_at_the_end_of_all_numbers_is_refused_by_name(self) -> None:
        for store in (self.articles, self.records):
            poll = {"resource_type": store.resource_type, "resource_id": "same"}
            for after in (2, 2**53 + 1, 2**63 - 1):
                error = self.refused(store.call, "poll_resource_events", {**poll, "after_sequence": after})
                self.assertEqual(error, "sequence_beyond_log")
            error = self.refused(store.call, "poll_resource_events", {**poll, "after_sequence": 2**63})
            self.assertEqual(error, "invalid_arguments")

    def test_a_clock_without_a_time_is_an_error_that_writes_nothing(self) -> None:
        peoples: List[Call] = [
            (self.articles.create_article, ("same", "T", "C")),
            (self.articles.publish_article, ("same", "one")),
            (self.records.create_item, ("same", {"ticket": "T-2"})),
            (self.records.delete_item, ("same", "one")),
        ]
        calls = [*self.edits(), *peoples]
        self.watch.changed()
        for self.now in (float("nan"), float("inf"), 1e300, -1e300, 253402300800.0):
            for act, arguments in calls:
                with self.subTest(act, now=self.now), self.assertRaises((ValueError, OverflowError, OSError)):
                    act(*arguments)
        self.assertFalse(self.watch.changed())
        self.now = NOW

    def test_a_row_of_marks_is_indexed_as_quickly_as_letters(self) -> None:
        # To normalise this takes hours: canonical ordering is quadratic in the length of a row of marks.
        self.articles.create_article("same", "Marks", "a" + "\u0301\u0323" * 499_000 + " findme")
        found = self.articles.call("search_knowledge_base", {"knowledge_base_id": "same", "query": "findme"})
        self.assertEqual([result["title"] for result in found["results"]], ["Marks"])

    def test_a_query_finds_what_its_characters_stand_for(self) -> None:
        for text in ("\ufdfa", "½ ㏂", "ﬀ" * 100, "⑴⑵⑶", "İİ"):
            self.articles.create_article("same", "Expanding", text)
            found = self.articles.call("search_knowledge_base", {"knowledge_base_id": "same", "query": text + "  "})
            self.assertIn(text, [result["snippet"] for result in found["results"]])

    def test_a_file_that_is_no_database_is_an_error_and_stays_as_it_is(self) -> None:
        path = os.path.join(os.path.dirname(self.path), "letter.txt")
        text = b"Dear reader, this is no database. " * 100
        with open(path, "wb") as file:
            file.write(text)
        for kind in (KnowledgeBaseStore, RecordStore):
            with self.assertRaises(sqlite3.DatabaseError):
                kind(path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), text)

    def test_a_schema_of_the_callers_own_types_is_no_schema(self) -> None:
        for bad in (hostile.EvilList([1]), [hostile.EvilDict()], [{**ALL_TYPES[0], "key": hostile.PlainStr("key")}]):
            self.assertEqual(self.refused(self.records.create_channel, "new", bad), "invalid_arguments")
            self.assertEqual(self.refused(self.records.change_schema, "same", bad), "invalid_arguments")
