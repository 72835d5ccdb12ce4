"""Killed at any moment: what was acknowledged is there, what was not is wholly there or wholly absent.

A child process works on a file and is killed with SIGKILL, which no program can prepare for: before any line of Python
that a transaction runs, and at random moments, which fall inside SQLite too. A copy of the process (fork) is quick to
make, so this is done hundreds of times. `SEED=7 TIMES=20 python -m unittest tests.test_killed` kills more often.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import unittest
from typing import Any, BinaryIO, Callable, Dict, List, Tuple

from arguments import JSON
from kb_store import KnowledgeBaseStore
from record_store import RecordStore
from tests.hostile import SEED, TIMES
from tests.record_case import NOW, field

RANDOM_KILLS = 60 * TIMES  # of each store
LINES = 30 * TIMES  # of each call; all of them, if it has no more
SUBJECTS = ("one", "two")
FIELDS = [field("name", "text", unique=True), field("count", "number")]
CHANGED = [field("name", "text"), field("count", "number", unique=True), field("note", "text")]

Tell = Callable[[Any], None]


def clock() -> float:
    return NOW  # so that the same call leaves the same file


def articles(path: str) -> KnowledgeBaseStore:
    return KnowledgeBaseStore(path, clock)


def records(path: str) -> RecordStore:
    return RecordStore(path, clock)


def filled(store: Any) -> Any:
    if isinstance(store, KnowledgeBaseStore):
        store.create_knowledge_base("shared")
        for subject in SUBJECTS:
            store.create_article("shared", subject, "0", subject)
    else:
        store.create_channel("shared", FIELDS)
        for number, subject in enumerate(SUBJECTS):
            store.create_item("shared", {"name": subject, "count": number * 1_000_000}, subject)
    return store


def read(store: Any, subject: str) -> Tuple[Any, int]:
    """(version, count)"""
    if isinstance(store, KnowledgeBaseStore):
        article = store.read_knowledge_article("shared", subject)
        return article["citation"]["updated_at"], int(article["content"])
    item = store.read_record_item("shared", subject)
    return item["version"], item["values"]["count"]


def edit_of(store: Any, subject: str, key: str) -> Tuple[str, JSON]:
    """The name and the arguments of a call that raises the subject's count by one."""
    version, count = read(store, subject)
    edit = {"expected_version": version, "idempotency_key": key}
    if isinstance(store, KnowledgeBaseStore):
        where = {"knowledge_base_id": "shared", "article_id": subject}
        return "edit_knowledge_article", {**where, **edit, "content": str(count + 1)}
    where = {"record_channel_id": "shared", "item_id": subject}
    return "edit_record_item", {**where, **edit, "values": {"count": count + 1}}


def edit(store: Any) -> Any:
    return store.call(*edit_of(store, "one", "key"))


def search(store: Any) -> Any:
    return store.call("search_knowledge_base", {"knowledge_base_id": "shared", "query": "one 0"})


@unittest.skipUnless(hasattr(os, "fork") and hasattr(signal, "SIGKILL"), "needs fork and SIGKILL")
class Killed(unittest.TestCase):
    def setUp(self) -> None:
        # In memory where there is such a place: it is the process that dies here, not the machine.
        folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "store.db")

    def fork(self, work: Callable[[Tell], None]) -> Tuple[int, BinaryIO]:
        """(id of a child that does the work, pipe on which it tells us something).

        No connection to the file may be open here meanwhile: carried over a fork, it would break the file's locks.
        """
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return pid, open(reader, "rb")
        try:  # in the child, which must never return into the tests
            os.close(reader)
            work(lambda told: void(os.write(writer, (json.dumps(told) + "\n").encode())))
            os._exit(0)
        except BaseException as error:
            os.write(2, f"the child failed: {error!r}\n".encode())
        finally:
            os._exit(1)

    def end_of(self, pid: int, pipe: BinaryIO, first: bytes = b"") -> List[Any]:
        """What the child has told, after a first line that was read before. Waits for the child's end, which must be
        that it was killed or had nothing left to do."""
        with pipe:
            lines = [first, *pipe.read().splitlines(keepends=True)]
        status = os.waitpid(pid, 0)[1]
        if not os.WIFSIGNALED(status):
            self.assertEqual(os.WEXITSTATUS(status), 0, "the child failed")
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def rows(self, kind: Callable[[str], Any]) -> List[str]:
        """Everything in the file, which must be sound."""
        store = kind(self.path)
        try:
            store.check()
            return list(store.db.iterdump())
        finally:
            store.close()


def void(_: Any) -> None:
    pass


class BeforeALine(Killed):
    def work_until(self, last: int, kind: Callable[[str], Any], act: Callable[[Any], Any], tell: Tell) -> None:
        """Dies before the `last` line that the call runs in a transaction, the first after it included."""
        store = kind(self.path)
        lines, inside = 0, False

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal lines, inside
            was_inside, inside = inside, store.db.in_transaction
            lines += event == "line" and (inside or was_inside)
            if lines == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        act(store)
        sys.settrace(None)
        tell(lines)

    def run_until(self, last: int, kind: Callable[[str], Any], act: Callable[[Any], Any]) -> List[Any]:
        """How many lines there are, in a list; an empty one if the child was killed."""
        for rest in ("-wal", "-shm"):
            if os.path.exists(self.path + rest):
                os.remove(self.path + rest)
        shutil.copy(self.path + ".fresh", self.path)
        return self.end_of(*self.fork(lambda tell: self.work_until(last, kind, act, tell)))

    def all_or_nothing(self, kind: Callable[[str], Any], act: Callable[[Any], Any]) -> None:
        filled(kind(self.path)).close()
        shutil.copy(self.path, self.path + ".fresh")
        before = self.rows(kind)
        [lines] = self.run_until(-1, kind, act)
        after = self.rows(kind)
        self.assertNotEqual(before, after)
        # The last few lines are about the COMMIT; of the others there may be many that are alike.
        chosen = {*random.Random(SEED).sample(range(1, lines + 1), min(lines, LINES)), *range(lines - 6, lines + 1)}
        seen = []
        for line in sorted(chosen):
            self.assertEqual(self.run_until(line, kind, act), [])
            now = self.rows(kind)
            self.assertIn(now, (before, after), f"killed before line {line}: half of it is there")
            seen.append(now == after)
        self.assertEqual(seen, sorted(seen), "there, and at a later line absent")
        self.assertEqual({*seen}, {False, True})

    def test_an_edit_of_an_article_is_there_or_absent(self) -> None:
        self.all_or_nothing(articles, edit)

    def test_an_edit_of_an_item_is_there_or_absent(self) -> None:
        self.all_or_nothing(records, edit)

    def test_an_index_that_catches_up_has_done_so_or_not(self) -> None:
        self.all_or_nothing(articles, search)

    def test_a_new_article_is_there_or_absent(self) -> None:
        self.all_or_nothing(articles, lambda store: store.create_article("shared", "Three", "3"))

    def test_a_new_item_is_there_or_absent(self) -> None:
        self.all_or_nothing(records, lambda store: store.create_item("shared", {"name": "three"}))

    def test_a_changed_schema_is_there_with_all_its_claims_or_absent(self) -> None:
        self.all_or_nothing(records, lambda store: store.change_schema("shared", CHANGED))

    def test_a_deleted_item_is_gone_or_there(self) -> None:
        self.all_or_nothing(records, lambda store: store.delete_item("shared", "one"))


class AtRandom(Killed):
    def work(self, kind: Callable[[str], Any], seed: str, tell: Tell) -> None:
        """Edits until it is killed; tells of each edit before and after."""
        rng = random.Random(seed)
        store = kind(self.path)
        number = 0
        while True:
            number += 1
            call = edit_of(store, rng.choice(SUBJECTS), f"{seed}-{number}")
            tell(call)
            tell(store.call(*call))
            if kind is articles and rng.random() < 0.3:
                search(store)

    def lives(self, kind: Callable[[str], Any]) -> None:
        """One file, whose process is killed again and again."""
        rng = random.Random(SEED)
        filled(kind(self.path)).close()
        acknowledged: List[Tuple[JSON, JSON]] = []
        for number in range(RANDOM_KILLS):
            pid, pipe = self.fork(functools.partial(self.work, kind, f"{SEED}-{number}"))
            first = pipe.readline() if rng.random() < 0.9 else b""
            time.sleep(rng.uniform(0, 0.004))
            os.kill(pid, signal.SIGKILL)
            told = self.end_of(pid, pipe, first)
            store = kind(self.path)
            try:
                pairs = list(zip(told[::2], told[1::2]))
                acknowledged += pairs
                if len(told) % 2:
                    acknowledged.append((told[-1], self.settled(store, told[-1], len(acknowledged))))
                for call, result in pairs[-5:] + rng.sample(acknowledged, min(5, len(acknowledged))):
                    self.assertEqual(store.call(*call), {**result, "replayed": True})
                self.assertEqual(store.latest_sequence("shared"), len(SUBJECTS) + len(acknowledged))
                store.check()
            except Exception as error:
                self.fail(f"SEED={SEED}, life {number}: {error!r}")
            finally:
                store.close()

    def make(self, kind: Callable[[str], Any], tell: Tell) -> None:
        tell("begun")
        filled(kind(self.path))

    def settled(self, store: Any, call: Any, edits_before: int) -> JSON:
        """The result of the edit that nobody knows of, as a retry with the same key tells it."""
        there = store.latest_sequence("shared") - len(SUBJECTS) - edits_before
        self.assertIn(there, (0, 1))
        result: Dict[str, Any] = store.call(*call)
        self.assertEqual(result["replayed"], there == 1)
        return {**result, "replayed": False}

    def test_articles_outlive_every_process_that_edits_them(self) -> None:
        self.lives(articles)

    def test_items_outlive_every_process_that_edits_them(self) -> None:
        self.lives(records)

    def test_a_file_whose_making_was_cut_short_can_be_made_again(self) -> None:
        folder = os.path.dirname(self.path)
        for kind in (articles, records):
            for number in range(RANDOM_KILLS // 4):
                self.path = os.path.join(folder, f"{kind.__name__}-{number}.db")
                pid, pipe = self.fork(functools.partial(self.make, kind))
                pipe.readline()
                time.sleep(random.Random(number).uniform(0, 0.002))
                os.kill(pid, signal.SIGKILL)
                self.end_of(pid, pipe)
                self.rows(kind)
