"""A store with one bug in it, and what the tests of records share."""

from __future__ import annotations

import itertools
import json
import unittest
from typing import Any, List, Optional

from arguments import JSON, ToolError
from record_store import RecordStore

NOW = 1_794_128_400.0  # 2026-11-08T09:00:00Z


def field(key: str, kind: str, config: Optional[JSON] = None, required: bool = False, unique: bool = False) -> JSON:
    return {
        "key": key, "label": key.title(), "type": kind,
        "is_required": required, "is_unique": unique, "config": config or {},
    }  # fmt: skip


def options(**labels: str) -> JSON:
    return {"options": [{"value": value, "label": label, "color": "gray"} for value, label in labels.items()]}


# The post's bug tracker: 11 fields.
STATUS = options(new="New", triaged="Triaged", in_progress="In progress", fixed="Fixed", wont_fix="Won't fix")
BUGS = [
    field("ticket", "text", {"max_length": 20}, required=True, unique=True),
    field("title", "text", {"max_length": 200}, required=True),
    field("description", "text", {"max_length": 4000}),
    field("status", "select", STATUS, required=True),
    field("owner", "select", options(aiko="Aiko", mika="Mika", ren="Ren")),
    field("severity", "select", options(s1="S1 Critical", s2="S2 Major", s3="S3 Minor")),
    field("points", "number", {"min": 0, "max": 13}),
    field("area", "select", options(ui="UI", api="API")),
    field("due", "date"),
    field("reporter", "email"),
    field("age_days", "formula", {"expression": "days_since(created_at)"}),
]
BUG = {"ticket": "BUG-1", "title": "Login fails", "status": "new"}

# What a confused or hostile caller might send in place of any value.
HOSTILE: List[Any] = [
    None, True, -1, 0, 2**63, -(2**63) - 1, 10**400, 1.0, 1e308, float("nan"), float("inf"), "", "\0", "\ud800",
    "x" * 1_000_001, "'; DROP TABLE record_item; --", "%s", "../..", [], {}, [[]], {"": None}, {"a": "\udfff"},
    b"bytes", object(), {1: 2}, {None: 1}, {"a": {1, 2}}, (1, 2), ToolError, "\u202e", "ａ", "e\u0301",
]  # fmt: skip


class RecordCase(unittest.TestCase):
    """Each test has a store of its own, with one bug in it. Each ends with the store's own check."""

    def setUp(self) -> None:
        self.now = NOW
        self.keys = (f"key-{number}" for number in itertools.count(1))
        self.store = self.open()
        self.store.create_channel("bugs", BUGS)
        self.store.create_item("bugs", BUG, "bug-1")

    def tearDown(self) -> None:
        self.store.check()

    def open(self, path: str = ":memory:", **options: Any) -> RecordStore:
        store = RecordStore(path, clock=lambda: self.now, **options)
        self.addCleanup(store.close)
        return store

    def edit(
        self, values: Any, version: int = 1, key: Optional[str] = None, item_id: str = "bug-1", **more: Any
    ) -> JSON:
        arguments = {
            "record_channel_id": "bugs", "item_id": item_id, "values": values,
            "expected_version": version, "idempotency_key": key or next(self.keys), **more,
        }  # fmt: skip
        return self.store.call("edit_record_item", arguments)

    def read(self, item_id: str = "bug-1", channel: str = "bugs") -> JSON:
        return self.store.call("read_record_item", {"record_channel_id": channel, "item_id": item_id})

    def page(self, **arguments: Any) -> JSON:
        return self.store.call("list_record_items", {"record_channel_id": "bugs", **arguments})

    def ids(self, **arguments: Any) -> List[str]:
        return [item["item_id"] for item in self.page(**arguments)["items"]]

    def events(self, channel: str = "bugs", after: int = 0) -> List[JSON]:
        arguments = {"resource_type": "record_channel", "resource_id": channel, "after_sequence": after}
        events: List[JSON] = self.store.call("poll_resource_events", arguments)["events"]
        return events

    def refused(self, error: str, act: Any, *arguments: Any, **named: Any) -> JSON:
        """The refusal's payload. It must be of this kind, be JSON, and have changed nothing."""
        before = dump(self.store)
        with self.assertRaises(ToolError) as caught:
            act(*arguments, **named)
        payload = caught.exception.payload
        self.assertEqual(payload["error"], error, payload)
        json.dumps(payload, allow_nan=False).encode()
        self.assertEqual(dump(self.store), before)
        return payload

    def channel(self, *fields: JSON, name: str = "other", **options: Any) -> None:
        self.store.create_channel(name, list(fields), **options)


def dump(store: RecordStore) -> List[str]:
    return list(store.db.iterdump())
