"""Many processes on one file: writers, a reader that checks, and pollers that follow the log, all at once.

Each process has a connection of its own and starts afresh ("spawn"), as on any system. Nothing here depends on which of
them is quick: whatever the order, the books must balance afterwards.

    receipt   what a writer notes of an edit that was acknowledged: (key, arguments, result)
"""

from __future__ import annotations

import os
import random
import tempfile
import time
import unittest
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Callable, Dict, List, Sequence, Tuple

from arguments import JSON, ToolError
from kb_store import KnowledgeBaseStore
from record_store import RecordStore
from tests.hostile import SEED, TIMES
from tests.record_case import field

WRITERS = 3
POLLERS = 2
EDITS = 120 * TIMES  # that each writer must get acknowledged
SUBJECTS = ("one", "two", "three")
PATIENCE = 120 * TIMES  # seconds after which a process gives up, so that a fault cannot hang the tests

Receipt = Tuple[str, JSON, JSON]


class Side:
    """What differs between the two stores, so that one test serves both."""

    store_type: Any = None
    edit = ""  # the tool
    version = ""  # what results and events call it

    def __init__(self, path: str) -> None:
        self.store = self.store_type(path)

    def fill(self, subjects: Sequence[str]) -> None:
        raise NotImplementedError

    def read(self, subject: str) -> Tuple[Any, int]:
        """(version, count): each edit must raise the count that it has read by one."""
        raise NotImplementedError

    def arguments(self, subject: str, count: int) -> JSON:
        raise NotImplementedError

    def look(self) -> None:
        """What another agent may read meanwhile."""
        raise NotImplementedError

    def poll(self, after: int, limit: int = 100) -> JSON:
        kind = self.store.resource_type
        poll = {"resource_type": kind, "resource_id": "shared", "after_sequence": after, "limit": limit}
        events: JSON = self.store.call("poll_resource_events", poll)
        return events


class Articles(Side):
    store_type = KnowledgeBaseStore
    edit, version = "edit_knowledge_article", "updated_at"

    def fill(self, subjects: Sequence[str]) -> None:
        self.store.create_knowledge_base("shared")
        for subject in subjects:
            self.store.create_article("shared", subject, "0", subject)

    def read(self, subject: str) -> Tuple[Any, int]:
        found = self.store.call("read_knowledge_article", {"knowledge_base_id": "shared", "article_id": subject})
        return found["citation"]["updated_at"], int(found["content"])

    def arguments(self, subject: str, count: int) -> JSON:
        return {"knowledge_base_id": "shared", "article_id": subject, "content": str(count)}

    def look(self) -> None:
        found = self.store.call("search_knowledge_base", {"knowledge_base_id": "shared", "query": "one two three"})
        if len(found["results"]) != len(SUBJECTS):
            raise AssertionError(f"a search found {found}")


class Records(Side):
    store_type = RecordStore
    edit, version = "edit_record_item", "version"

    def fill(self, subjects: Sequence[str]) -> None:
        fields = [field("name", "text", unique=True, required=True), field("count", "number")]
        self.store.create_channel("shared", fields)
        for subject in subjects:
            self.store.create_item("shared", {"name": subject, "count": 0}, subject)

    def read(self, subject: str) -> Tuple[Any, int]:
        found = self.store.call("read_record_item", {"record_channel_id": "shared", "item_id": subject})
        return found["version"], found["values"]["count"]

    def arguments(self, subject: str, count: int) -> JSON:
        return {"record_channel_id": "shared", "item_id": subject, "values": {"count": count}}

    def look(self) -> None:
        found = self.store.call("list_record_items", {"record_channel_id": "shared"})
        if len(found["items"]) != len(SUBJECTS):
            raise AssertionError(f"a page has {found}")


SIDES: Dict[str, Any] = {"articles": Articles, "records": Records}


# --- what the processes do --------------------------------------------------------------------------------------------


def patiently(act: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the call or the code of its refusal; if the file is busy, the call is made again."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return act(*arguments)
        except ToolError as refusal:
            if refusal.payload["error"] != "busy":
                return refusal.payload["error"]
    raise AssertionError("the file was busy all the time there is")


def attempt(side: Side, arguments: JSON) -> Any:
    return patiently(side.store.call, side.edit, arguments)


def write(kind: str, path: str, number: int) -> List[Receipt]:
    """Reads and edits, and in between repeats edits, uses keys for other edits and versions that are out of date."""
    side: Side = SIDES[kind](path)
    rng = random.Random(f"{SEED} {number}")
    deadline = time.monotonic() + PATIENCE
    receipts: List[Receipt] = []
    tries = 0
    while len(receipts) < EDITS:
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(receipts)} edits in all the time there is")
        tries += 1
        subject = rng.choice(SUBJECTS)
        version, count = side.read(subject)
        key = f"{number}-{tries}"
        edit = {**side.arguments(subject, count + 1), "expected_version": version, "idempotency_key": key}
        answer = attempt(side, edit)
        if isinstance(answer, dict):
            receipts.append((key, edit, answer))
            if attempt(side, {**edit, "idempotency_key": f"{key}-stale"}) != "version_conflict":
                raise AssertionError("an edit went through with a version that is out of date")
        elif answer != "version_conflict":
            raise AssertionError(f"an edit was refused as {answer}")
        if receipts and rng.random() < 0.3:
            key, edit, first = rng.choice(receipts)
            if attempt(side, edit) != {**first, "replayed": True}:
                raise AssertionError("a replay is not the first answer")
            if attempt(side, {**edit, **side.arguments(rng.choice(SUBJECTS), -1)}) != "idempotency_key_reused":
                raise AssertionError("a key was taken for another edit")
    side.store.close()
    return receipts


def send_what_all_send(kind: str, path: str, number: int, edits: List[JSON]) -> List[JSON]:
    """The same edits with the same keys as every other process, which all start at once."""
    side: Side = SIDES[kind](path)
    with open(f"{path}-ready-{number}", "w"):
        pass
    deadline = time.monotonic() + PATIENCE
    while not all(os.path.exists(f"{path}-ready-{other}") for other in range(WRITERS)):
        if time.monotonic() > deadline:
            raise AssertionError("the others have not come")
    answers = [attempt(side, edit) for edit in edits]
    side.store.close()
    return answers


def follow(kind: str, path: str, stop: str, number: int) -> List[JSON]:
    """All events as a poller gets them that never looks back. Ends when `stop` is there and the log is at its end."""
    side: Side = SIDES[kind](path)
    rng = random.Random(f"{SEED} {number}")
    deadline = time.monotonic() + PATIENCE
    after, events = 0, []
    while time.monotonic() < deadline:
        last_round = os.path.exists(stop)
        page = side.poll(after, rng.randint(1, 100))
        events += page["events"]
        after = page["next_after_sequence"]
        if last_round and not page["has_more"]:
            break
    side.store.close()
    return events


def watch(kind: str, path: str, stop: str) -> int:
    """How often the store was looked at and checked while others were writing; more than once."""
    side: Side = SIDES[kind](path)
    deadline = time.monotonic() + PATIENCE
    rounds = 0
    while time.monotonic() < deadline:
        last_round = os.path.exists(stop)
        patiently(side.look)
        patiently(side.store.check)
        rounds += 1
        if last_round:
            break
        time.sleep(0.01)
    side.store.close()
    return rounds


# --- the tests --------------------------------------------------------------------------------------------------------


class ManyProcesses(unittest.TestCase):
    pool: ProcessPoolExecutor

    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = ProcessPoolExecutor(WRITERS + POLLERS + 1, mp_context=get_context("spawn"))
        cls.addClassCleanup(cls.pool.shutdown)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "store.db")
        self.stop = os.path.join(folder.name, "stop")

    def side(self, kind: str) -> Side:
        side: Side = SIDES[kind](self.path)
        self.addCleanup(side.store.close)
        return side

    def books_balance(self, kind: str) -> None:
        side = self.side(kind)
        side.fill(SUBJECTS)
        followers = [self.pool.submit(follow, kind, self.path, self.stop, number) for number in range(POLLERS)]
        watcher = self.pool.submit(watch, kind, self.path, self.stop)
        writers = [self.pool.submit(write, kind, self.path, number) for number in range(WRITERS)]
        try:
            receipts = [receipt for writer in writers for receipt in writer.result(PATIENCE)]
        finally:
            with open(self.stop, "w"):
                pass
        logs = [follower.result(PATIENCE) for follower in followers]
        self.assertGreater(watcher.result(PATIENCE), 0)

        log = side.poll(0)["events"]
        while len(log) < side.poll(0)["latest_sequence"]:
            log += side.poll(len(log))["events"]
        self.assertEqual([event["sequence"] for event in log], list(range(1, len(log) + 1)))
        for followed in logs:  # missed, repeated or late, and a poller's list would not be the log
            self.assertEqual(followed, log)
        self.acknowledged_is_what_happened(side, receipts, log[len(SUBJECTS) :])
        for _, edit, first in receipts:
            self.assertEqual(attempt(side, edit), {**first, "replayed": True})
        self.assertEqual(side.poll(len(log))["events"], [])
        side.store.check()

    def acknowledged_is_what_happened(self, side: Side, receipts: List[Receipt], edits: List[JSON]) -> None:
        self.assertEqual(len(receipts), WRITERS * EDITS)
        subject = side.store.event_keys[0]
        results = [result.get("citation", result) for _, _, result in receipts]
        told = sorted((result[subject], result[side.version]) for result in results)
        self.assertEqual(told, sorted((event[subject], event[side.version]) for event in edits))
        for name in SUBJECTS:
            version, count = side.read(name)
            mine = [event for event in edits if event[subject] == name]
            self.assertEqual(count, len(mine), "an edit overwrote another that it had not seen")
            self.assertEqual(version, mine[-1][side.version])

    def one_is_first(self, kind: str) -> None:
        side = self.side(kind)
        names = [f"subject-{number}" for number in range(40 * TIMES)]
        side.fill(names)
        edits = []
        for name in names:
            version, count = side.read(name)
            edits.append({**side.arguments(name, count + 1), "expected_version": version, "idempotency_key": name})
        senders = [self.pool.submit(send_what_all_send, kind, self.path, number, edits) for number in range(WRITERS)]
        for answers in zip(*[sender.result(PATIENCE) for sender in senders]):
            self.assertEqual(sorted(answer.pop("replayed") for answer in answers), [False] + [True] * (WRITERS - 1))
            self.assertEqual(list(answers), [answers[0]] * WRITERS)
        self.assertEqual(side.poll(0)["latest_sequence"], 2 * len(names))
        side.store.check()

    def test_the_books_balance_when_many_edit_the_same_articles(self) -> None:
        self.books_balance("articles")

    def test_the_books_balance_when_many_edit_the_same_items(self) -> None:
        self.books_balance("records")

    def test_of_many_who_send_one_edit_of_an_article_one_is_first_and_the_rest_are_replays(self) -> None:
        self.one_is_first("articles")

    def test_of_many_who_send_one_edit_of_an_item_one_is_first_and_the_rest_are_replays(self) -> None:
        self.one_is_first("records")
