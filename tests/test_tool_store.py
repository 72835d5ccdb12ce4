"""What both stores share: the log and its polls, the one write transaction, a file that many processes use."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import sqlite3
import tempfile
import threading
import warnings
from typing import Any, Dict, List, Tuple
from unittest import mock

from arguments import ToolError
from kb_store import PAUSE, KnowledgeBaseStore
from record_store import RecordStore
from tests.kb_case import FIRST, NOW, KnowledgeBaseCase, rows
from tool_store import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    ToolStore,
    WrongFile,
    fingerprint,
    later_time,
    open_database,
)


class Polling(KnowledgeBaseCase):
    """The log holds 250 events."""

    def setUp(self) -> None:
        super().setUp()
        for number in range(249):
            self.store.save_article("kb", "a", f"Text {number}")

    def test_a_poll_says_where_to_resume_and_whether_there_is_more(self) -> None:
        page = self.poll(limit=2)
        self.assertEqual([event["sequence"] for event in page["events"]], [1, 2])
        del page["events"]
        self.assertEqual(page, {"next_after_sequence": 2, "latest_sequence": 250, "has_more": True})

    def test_an_event_says_what_happened_to_which_version(self) -> None:
        self.assertEqual(
            self.poll(0, limit=2)["events"],
            [
                {"sequence": 1, "type": "created", "article_id": "a", "updated_at": FIRST},
                {"sequence": 2, "type": "saved", "article_id": "a", "updated_at": "2026-11-08T09:00:00.000001Z"},
            ],
        )

    def test_a_hundred_events_at_most_and_by_default(self) -> None:
        self.assertEqual(len(self.poll()["events"]), 100)
        self.assertEqual(len(self.poll(limit=100)["events"]), 100)

    def test_resuming_gives_every_event_once_in_order(self) -> None:
        for limit in (1, 7, 100):
            after, more, sequences = 0, True, []
            while more:
                page = self.poll(after, limit=limit)
                sequences += [event["sequence"] for event in page["events"]]
                after, more = page["next_after_sequence"], page["has_more"]
            self.assertEqual(sequences, list(range(1, 251)))

    def test_a_poll_without_a_sequence_begins_at_the_beginning(self) -> None:
        self.assertEqual(self.poll(), self.poll(0))

    def test_has_more_is_false_exactly_at_the_end(self) -> None:
        self.assertTrue(self.poll(149, limit=100)["has_more"])
        self.assertFalse(self.poll(150, limit=100)["has_more"])
        self.assertEqual(
            self.poll(250), {"events": [], "next_after_sequence": 250, "latest_sequence": 250, "has_more": False}
        )

    def test_a_cursor_at_the_end_gets_what_comes_later(self) -> None:
        self.store.unpublish_article("kb", "a")
        page = self.poll(250)
        self.assertEqual([event["type"] for event in page["events"]], ["unpublished"])
        self.assertEqual(page["next_after_sequence"], 251)

    def test_no_cursor_is_too_old(self) -> None:
        self.assertEqual(self.poll(1, limit=1)["events"][0]["sequence"], 2)

    def test_beyond_the_end_is_refused_and_says_where_the_end_is(self) -> None:
        for after in (251, 2**63 - 1):
            payload = self.refused("sequence_beyond_log", self.poll, after)
            self.assertEqual(payload["latest_sequence"], 250)

    def test_an_empty_log_can_be_polled(self) -> None:
        self.store.create_knowledge_base("empty")
        empty = {"events": [], "next_after_sequence": 0, "latest_sequence": 0, "has_more": False}
        self.assertEqual(self.poll(base="empty"), empty)
        self.refused("sequence_beyond_log", self.poll, 1, base="empty")

    def test_another_kind_of_resource_is_not_found(self) -> None:
        for kind in ("channel", "record_channel", "session", "", "Knowledge_base"):
            arguments = {"resource_type": kind, "resource_id": "kb"}
            self.refused("not_found", self.store.call, "poll_resource_events", arguments)

    def test_a_poll_reads_the_log_by_its_key_without_sorting(self) -> None:
        statements: List[str] = []
        self.store.db.set_trace_callback(statements.append)
        self.poll(200)
        self.store.db.set_trace_callback(None)
        for statement in [statement for statement in statements if "FROM event" in statement]:
            plan = " / ".join(row[3] for row in self.store.db.execute("EXPLAIN QUERY PLAN " + statement))
            self.assertIn("USING PRIMARY KEY", plan)
            self.assertNotIn("SCAN event", plan)
            self.assertNotIn("TEMP B-TREE", plan)


class TheLog(KnowledgeBaseCase):
    def test_no_event_is_ever_changed_or_deleted(self) -> None:
        for statement in (
            "UPDATE event SET type = 'saved'", "UPDATE event SET sequence = 2", "DELETE FROM event",
            "REPLACE INTO event VALUES ('knowledge_base', 'kb', 1, 'saved', 'a', 'v')",
        ):  # fmt: skip
            with self.subTest(statement), self.assertRaisesRegex(sqlite3.IntegrityError, "append-only"):
                self.store.db.execute(statement)

    def test_the_tables_refuse_bad_rows(self) -> None:
        self.edit("Mine", key="k")
        key = "INSERT INTO idempotency_key VALUES ('knowledge_base', 'kb', '{}', x'00', {}, {})"
        for row in (
            "INSERT INTO event VALUES ('knowledge_base', 'kb', 1, 'saved', 'a', 'v')",
            "INSERT INTO event VALUES ('knowledge_base', 'kb', 0, 'saved', 'a', 'v')",
            "INSERT INTO event VALUES ('knowledge_base', 'kb', NULL, 'saved', 'a', 'v')",
            "INSERT INTO event VALUES ('knowledge_base', NULL, 3, 'saved', 'a', 'v')",
            "INSERT INTO event VALUES (NULL, 'kb', 3, 'saved', 'a', 'v')",
            "INSERT INTO event VALUES ('knowledge_base', 'kb', 3, NULL, 'a', 'v')",
            "INSERT INTO event VALUES ('knowledge_base', 'kb', 3, 'saved', NULL, 'v')",
            "INSERT INTO event VALUES ('knowledge_base', 'kb', 3, 'saved', 'a', NULL)",
            key.format("k", "'{}'", 1),
            key.format("new", "'{}'", 3),
            key.format("new", "NULL", 1),
        ):
            with self.subTest(row), self.assertRaises(sqlite3.IntegrityError):
                self.store.db.execute(row)


class FailingCommit:
    """A connection whose COMMIT fails with this message."""

    def __init__(self, db: sqlite3.Connection, message: str) -> None:
        self.db = db
        self.message = message

    @property
    def in_transaction(self) -> bool:
        return self.db.in_transaction

    def execute(self, statement: str, *arguments: Any) -> Any:
        if statement == "COMMIT":
            raise sqlite3.OperationalError(self.message)
        return self.db.execute(statement, *arguments)


class Transactions(KnowledgeBaseCase):
    def test_an_error_inside_takes_everything_back(self) -> None:
        before = rows(self.store)
        for error in (ValueError, ToolError("busy"), KeyboardInterrupt):
            with self.assertRaises((ValueError, ToolError, KeyboardInterrupt)), self.store.write as db:
                db.execute("UPDATE article SET title = 'Other'")
                raise error
            self.assertFalse(self.store.db.in_transaction)
            self.assertEqual(rows(self.store), before)

    def test_a_commit_that_fails_takes_everything_back(self) -> None:
        """A deferred foreign key fails at the COMMIT itself."""
        self.store.db.executescript(
            """CREATE TABLE debt (base TEXT REFERENCES knowledge_base DEFERRABLE INITIALLY DEFERRED);
            CREATE TRIGGER owes AFTER UPDATE ON article WHEN new.content = 'Owed'
            BEGIN INSERT INTO debt VALUES ('unknown'); END;"""
        )
        before = rows(self.store)
        with self.assertRaises(sqlite3.IntegrityError):
            self.edit("Owed", key="k")
        self.assertFalse(self.store.db.in_transaction)
        self.assertEqual(rows(self.store), before)
        self.assertFalse(self.edit("Paid", key="k")["replayed"])

    def test_a_commit_that_is_locked_out_is_busy_and_one_that_fails_otherwise_is_an_error(self) -> None:
        before = rows(self.store)
        for message, raised in (("database is locked", ToolError), ("disk I/O error", sqlite3.OperationalError)):
            failing = mock.patch.object(self.store.write, "db", FailingCommit(self.store.db, message))
            with failing, self.assertRaises(raised):
                self.edit("Mine", key="k")
            self.assertFalse(self.store.db.in_transaction)
            self.assertEqual(rows(self.store), before)

    def test_a_transaction_that_sqlite_has_ended_itself_is_no_second_error(self) -> None:
        with self.assertRaisesRegex(ZeroDivisionError, "mine"), self.store.write as db:
            db.execute("ROLLBACK")
            raise ZeroDivisionError("mine")

    def test_the_write_lock_is_taken_before_the_first_read(self) -> None:
        statements: List[str] = []
        self.store.db.set_trace_callback(statements.append)
        self.edit("Mine")
        self.store.db.set_trace_callback(None)
        self.assertEqual([statements[0], statements[-1]], ["BEGIN IMMEDIATE", "COMMIT"])
        self.assertEqual(sum(statement.startswith(("BEGIN", "COMMIT")) for statement in statements), 2)

    def test_a_read_takes_no_write_lock(self) -> None:
        self.search("refund")
        statements: List[str] = []
        self.store.db.set_trace_callback(statements.append)
        self.read()
        self.poll()
        self.search("refund")
        self.store.db.set_trace_callback(None)
        self.assertNotIn("BEGIN IMMEDIATE", statements)

    def test_an_operational_error_that_is_no_lock_is_not_called_busy(self) -> None:
        self.store.db.execute("ALTER TABLE article RENAME TO lost")
        with self.assertRaisesRegex(sqlite3.OperationalError, "no such table"):
            self.read()
        self.store.db.execute("ALTER TABLE lost RENAME TO article")


class Files(KnowledgeBaseCase):
    """Stores over one file. `self.store` is the first; each other is a connection of its own."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "kb.db")
        super().setUp()

    def open(self, path: str = "", **options: Any) -> KnowledgeBaseStore:
        return super().open(path or self.path, **options)

    def test_two_connections_see_each_others_work(self) -> None:
        other = self.open()
        self.edit("Mine", key="k")
        first, self.store = self.store, other
        self.assertEqual(self.read()["content"], "Mine")
        self.assertEqual(self.found("mine"), ["a"])
        self.assertEqual(len(self.events()), 2)
        self.assertTrue(self.edit("Mine", key="k")["replayed"])
        self.refused("version_conflict", self.edit, "Theirs")
        self.edit("Theirs", self.version())
        self.store = first
        self.assertEqual((self.read()["content"], self.found("theirs"), self.found("mine")), ("Theirs", ["a"], []))

    def test_what_was_saved_is_there_after_closing(self) -> None:
        self.edit("Mine", key="k")
        before = rows(self.store)
        self.store.close()
        self.store = self.open()
        self.assertEqual(rows(self.store), before)
        self.assertTrue(self.edit("Mine", key="k")["replayed"])

    def test_versions_rise_over_processes_whose_clocks_differ(self) -> None:
        self.now += 10
        version = self.edit("Mine")["citation"]["updated_at"]
        self.now -= 20
        self.store = self.open()
        self.assertGreater(self.edit("Theirs", version)["citation"]["updated_at"], version)

    def test_the_file_is_in_wal_mode_and_waits_for_locks(self) -> None:
        def setting(name: str) -> Any:
            return self.store.db.execute(f"PRAGMA {name}").fetchone()[0]

        self.assertEqual((setting("journal_mode"), setting("synchronous"), setting("foreign_keys")), ("wal", 1, 1))
        self.assertEqual(setting("busy_timeout"), 10_000)
        self.assertIsNone(self.store.db.isolation_level)

    def test_a_write_lock_held_too_long_is_busy_and_writes_nothing(self) -> None:
        self.search("refund")
        holder, self.store = self.store, self.open(timeout=0.05)
        with holder.write:
            payload = self.refused("busy", self.edit, "Mine", key="k")
            self.assertIn("message", payload)
            self.refused("busy", self.store.save_article, "kb", "a", "Theirs")
            self.refused("busy", self.store.create_article, "kb", "T", "")
            self.refused("busy", self.store.create_knowledge_base, "new")
        self.assertFalse(self.edit("Mine", key="k")["replayed"])

    def test_reads_go_on_beside_a_writer_and_see_what_is_committed(self) -> None:
        self.search("refund")
        holder, self.store = self.store, self.open(timeout=0.05)
        with self.assertRaises(ZeroDivisionError), holder.write as db:
            db.execute("UPDATE article SET title = 'Unfinished'")
            self.assertEqual(self.read()["title"], "Refunds")
            self.assertEqual(self.search("refund")[0]["title"], "Refunds")
            self.assertEqual(len(self.events()), 1)
            raise ZeroDivisionError

    def test_a_search_that_must_catch_up_while_another_writes_is_busy(self) -> None:
        holder, self.store = self.store, self.open(timeout=0.05)
        with holder.write:
            self.refused("busy", self.search, "refund")
        self.assertEqual(self.found("refund"), ["a"])

    def test_a_search_with_much_to_catch_up_lets_others_write_in_between(self) -> None:
        self.search("refund")
        for _ in range(5):
            self.store.save_article("kb", "a", "Text")
        other = self.open(timeout=0)  # which does not wait

        def write(seconds: float) -> None:
            pauses.append(seconds)
            other.create_article("kb", "Meanwhile", "Text")

        pauses: List[float] = []
        with mock.patch("article_index.CATCH_UP", 2), mock.patch("kb_store.TURN", 0), mock.patch("time.sleep", write):
            self.assertEqual(len(self.found("text")), 4)
        self.assertEqual(pauses, [PAUSE] * 3)  # after 2 events of 5, of 3 + 1 and of 2 + 1; the last 1 + 1 end it
        self.assertGreater(PAUSE, 0.1)  # SQLite's longest time from one try to the next

    def test_a_store_opened_while_another_writes_is_busy_or_opens(self) -> None:
        with self.store.write:
            try:
                self.open(timeout=0.05).close()
            except ToolError as refusal:
                self.assertEqual(refusal.payload["error"], "busy")

    def test_a_file_that_is_no_database_is_an_error_and_leaves_no_connection(self) -> None:
        path = self.path + ".txt"
        with open(path, "w", encoding="utf-8") as file:
            file.write("no database " * 1000)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(sqlite3.DatabaseError):
                open_database(path, "", 0.05)

    def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(self) -> None:
        path = self.path + ".other"
        for statements in (
            "CREATE TABLE event (id INTEGER PRIMARY KEY, name TEXT)",
            "CREATE VIEW article AS SELECT 1",
            "CREATE TABLE notes (text); DROP TABLE notes; PRAGMA application_id = 7",
            "CREATE TABLE notes (text); DROP TABLE notes; PRAGMA user_version = 3",
            "CREATE TABLE notes (text); PRAGMA application_id = 7; PRAGMA user_version = 1",
        ):
            with contextlib.closing(sqlite3.connect(path)) as db:
                db.executescript(statements)
            with open(path, "rb") as file:
                before = file.read()
            for kind in (KnowledgeBaseStore, RecordStore):
                with self.subTest(statements, kind=kind), self.assertRaisesRegex(WrongFile, "another program's"):
                    kind(path)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), before)  # its journal mode too: that is in the header
            os.remove(path)

    def test_a_file_of_another_version_is_refused_and_left_as_it_is(self) -> None:
        for version in (SCHEMA_VERSION + 1, 0):
            self.store.db.execute(f"PRAGMA user_version = {version}")
            before = list(self.store.db.iterdump())
            for kind in (KnowledgeBaseStore, RecordStore):
                with self.assertRaisesRegex(WrongFile, f"version {version}, .* version {SCHEMA_VERSION}"):
                    kind(self.path)
            self.assertEqual(list(self.store.db.iterdump()), before)

    def test_an_empty_file_is_ours_to_make_and_both_stores_share_it(self) -> None:
        path = self.path + ".empty"
        with open(path, "w"):
            pass
        for kind in (KnowledgeBaseStore, RecordStore, KnowledgeBaseStore):
            with contextlib.closing(kind(path)) as store:
                found = [
                    store.db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
                ]
            self.assertEqual(found, [APPLICATION_ID, SCHEMA_VERSION])

    def test_the_empty_path_is_no_file(self) -> None:
        """SQLite would make a database that is gone when it is closed: `--db "$UNSET"` would lose everything."""
        for kind in (KnowledgeBaseStore, RecordStore):
            with self.assertRaisesRegex(ValueError, "path"):
                kind("")

    def test_connections_that_edit_at_once_lose_no_edit_and_no_event(self) -> None:
        """Each thread has its own store and reads, edits and, when refused, reads again until its edit is saved."""

        def work(name: str) -> None:
            store = KnowledgeBaseStore(self.path)
            for number in range(25):
                saved = False
                while not saved:
                    article = store.read_knowledge_article("kb", "a")
                    try:
                        store.edit_knowledge_article(
                            "kb", "a", f"{article['content']} {name}{number}",
                            article["citation"]["updated_at"], f"{name}{number} after {article['citation']}",
                        )  # fmt: skip
                        saved = True
                    except ToolError as refusal:
                        refusals.append(refusal.payload["error"])
            store.close()

        refusals: List[str] = []
        threads = [threading.Thread(target=work, args=(name,)) for name in "xyz"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        words = self.read()["content"].split()[5:]
        self.assertEqual(sorted(words), sorted(f"{name}{number}" for name in "xyz" for number in range(25)))
        self.assertEqual([event["sequence"] for event in self.events()], list(range(1, 77)))
        self.assertLessEqual(set(refusals), {"version_conflict"})

    def test_processes_that_open_a_new_file_at_once_all_may(self) -> None:
        path = self.path + ".new"
        context = multiprocessing.get_context("spawn")
        with context.Pool(4) as pool:
            sequences = pool.map(open_and_create, [(path, f"a{number}") for number in range(8)], chunksize=1)
        self.assertEqual(sorted(sequences), list(range(1, 9)))


def open_and_create(arguments: Tuple[str, str]) -> int:
    """In another process: makes the base if need be and one article in it; the sequence of its event."""
    path, article_id = arguments
    store = KnowledgeBaseStore(path)
    store.create_knowledge_base("kb")
    store.create_article("kb", "T", "", article_id)
    events = store.poll_resource_events("knowledge_base", "kb")["events"]
    store.check()
    store.close()
    [sequence] = [event["sequence"] for event in events if event["article_id"] == article_id]
    return int(sequence)


class Checking(KnowledgeBaseCase):
    def test_a_check_needs_no_write_lock(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "shared.db")
            stores: List[ToolStore] = [KnowledgeBaseStore(path, timeout=0.05), RecordStore(path, timeout=0.05)]
            with contextlib.closing(KnowledgeBaseStore(path)) as writer, writer.write:
                for store in stores:
                    with contextlib.closing(store):
                        self.assertGreater(store.check(), 5)


class SmallThings(KnowledgeBaseCase):
    def test_a_fingerprint_differs_when_any_field_does(self) -> None:
        requests = [
            (), ("",), ("", ""), ("a",), ("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("a", "b", "c"),
            ("1", "1"), ("11",), ("1,1",), ("é",), ("e\u0301",), ("\U0001f600",),
        ]  # fmt: skip
        self.assertEqual(len({fingerprint(*request) for request in requests}), len(requests))
        self.assertEqual(fingerprint("ab", "c"), fingerprint("ab", "c"))

    def test_a_later_time_is_now_or_just_after_the_previous(self) -> None:
        self.assertEqual(later_time(NOW), FIRST)
        self.assertEqual(later_time(NOW, FIRST), "2026-11-08T09:00:00.000001Z")
        self.assertEqual(later_time(NOW - 1, FIRST), "2026-11-08T09:00:00.000001Z")
        self.assertEqual(later_time(NOW + 0.000001, FIRST), "2026-11-08T09:00:00.000001Z")
        self.assertEqual(later_time(NOW + 1, FIRST), "2026-11-08T09:00:01.000000Z")
        self.assertEqual(later_time(0, "2026-12-31T23:59:59.999999Z"), "2027-01-01T00:00:00.000000Z")

    def test_a_result_is_recorded_as_it_was_returned(self) -> None:
        result = self.edit("Mine", key="k")
        recorded: Dict[str, str] = dict(self.store.db.execute("SELECT key, result FROM idempotency_key").fetchall())
        self.assertEqual(json.loads(recorded["k"]), result)

    def test_granted_may_be_any_collection_and_is_kept(self) -> None:
        ids = ["kb"]
        for granted in (ids, {"kb"}, ("kb", "other"), dict.fromkeys(ids), iter(ids)):
            self.store = self.open(granted=granted)
            self.store.create_knowledge_base("kb")
            self.store.create_knowledge_base("secret")
            ids[:] = ["secret"]
            for _ in range(2):  # an iterator would be used up by the first
                self.assertEqual(self.search("refund"), [])
                self.refused("not_found", self.search, "refund", "secret")
            ids[:] = ["kb"]

    def test_a_text_is_no_collection_of_ids(self) -> None:
        """Else "kb-internal" would grant "kb", "internal" and each letter."""
        for granted in ("kb-internal", "", b"kb", 5, [5], [None], [["kb"]]):
            with self.subTest(granted), self.assertRaises(TypeError):
                self.open(granted=granted)

    def test_a_store_has_no_tools_of_its_own(self) -> None:
        self.assertEqual(ToolStore.TOOLS, [])
        store = ToolStore()
        self.addCleanup(store.close)
        with self.assertRaises(ToolError):
            store.call("poll_resource_events", {})
        with self.assertRaises(NotImplementedError):
            store.require_resource("kb")
        self.assertEqual(store.check(), len(store.invariants()))
