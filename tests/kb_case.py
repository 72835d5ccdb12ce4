"""A store with one published article in it, and what the tests of knowledge bases share."""

from __future__ import annotations

import itertools
import json
import unittest
from typing import Any, List, Optional

from arguments import JSON, ToolError
from kb_store import KnowledgeBaseStore

NOW = 1_794_128_400.0  # 2026-11-08T09:00:00Z
FIRST = "2026-11-08T09:00:00.000000Z"  # the version of what is created then

TABLES = ("knowledge_base", "article", "event", "idempotency_key", "article_index")


class KnowledgeBaseCase(unittest.TestCase):
    """Each test has a store of its own with article `a` in base `kb`. Each ends with the store's own check."""

    def setUp(self) -> None:
        self.now = NOW
        self.keys = (f"key-{number}" for number in itertools.count(1))
        self.store = self.open()
        self.store.create_knowledge_base("kb")
        self.store.create_article("kb", "Refunds", "How to refund an order.", "a")

    def tearDown(self) -> None:
        self.store.check()

    def open(self, path: str = ":memory:", **options: Any) -> KnowledgeBaseStore:
        store = KnowledgeBaseStore(path, clock=lambda: self.now, **options)
        self.addCleanup(store.close)
        return store

    def edit(self, content: str, version: str = FIRST, key: Optional[str] = None, **more: Any) -> JSON:
        arguments = {
            "knowledge_base_id": "kb", "article_id": "a", "content": content,
            "expected_version": version, "idempotency_key": key or next(self.keys), **more,
        }  # fmt: skip
        return self.store.call("edit_knowledge_article", arguments)

    def read(self, article_id: str = "a", base: str = "kb") -> JSON:
        return self.store.call("read_knowledge_article", {"knowledge_base_id": base, "article_id": article_id})

    def version(self, article_id: str = "a") -> str:
        version: str = self.read(article_id)["citation"]["updated_at"]
        return version

    def search(self, query: str, base: str = "kb", **more: Any) -> List[JSON]:
        results: List[JSON] = self.store.call(
            "search_knowledge_base", {"knowledge_base_id": base, "query": query, **more}
        )["results"]
        return results

    def found(self, query: str, base: str = "kb", **more: Any) -> List[str]:
        return [result["citation"]["article_id"] for result in self.search(query, base, **more)]

    def poll(self, after: Optional[int] = None, base: str = "kb", **more: Any) -> JSON:
        arguments = {"resource_type": "knowledge_base", "resource_id": base, **more}
        return self.store.call(
            "poll_resource_events", arguments if after is None else {**arguments, "after_sequence": after}
        )

    def events(self, after: int = 0, base: str = "kb") -> List[JSON]:
        events: List[JSON] = self.poll(after, base)["events"]
        return events

    def refused(self, error: str, act: Any, *arguments: Any, **named: Any) -> JSON:
        """The refusal's payload. It must be of this kind, be JSON, and have changed nothing."""
        before = rows(self.store)
        with self.assertRaises(ToolError) as caught:
            act(*arguments, **named)
        payload = caught.exception.payload
        self.assertEqual(payload["error"], error, payload)
        json.dumps(payload, allow_nan=False).encode()
        self.assertEqual(rows(self.store), before)
        return payload


def rows(store: KnowledgeBaseStore) -> List[Any]:
    """All that the store holds."""
    return [(table, store.db.execute(f"SELECT * FROM {table}").fetchall()) for table in TABLES]
