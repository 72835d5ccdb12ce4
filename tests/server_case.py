"""A server over two small stores, and what the tests of the server share."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, List, Optional

from arguments import JSON
from kb_store import KnowledgeBaseStore
from mcp_server import HANDSHAKE, META, STATELESS, Server
from record_store import RecordStore
from tests.record_case import BUG, BUGS

ROOT = Path(__file__).resolve().parent.parent
ARTICLE = {"knowledge_base_id": "kb", "article_id": "a1"}
ITEM = {"record_channel_id": "bugs", "item_id": "bug-1"}
MODERN = {META + "protocolVersion": STATELESS[0], META + "clientCapabilities": {}}


def line(message: Any) -> bytes:
    return json.dumps(message).encode()


def request(method: str, params: Optional[JSON] = None, identifier: Any = 1) -> JSON:
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params or {}}


class ServerCase(unittest.TestCase):
    """Each test has a server over a knowledge base with an article and a channel with a bug, all in memory."""

    def setUp(self) -> None:
        self.now = 1_794_128_400.0
        self.articles = KnowledgeBaseStore(clock=lambda: self.now)
        self.records = RecordStore(clock=lambda: self.now)
        self.articles.create_knowledge_base("kb")
        self.articles.create_article("kb", "Refunds", "Refunds take a week.", "a1")
        self.articles.search_knowledge_base("kb", "refunds")  # brings the index up to date
        self.records.create_channel("bugs", BUGS)
        self.records.create_item("bugs", BUG, "bug-1")
        self.addCleanup(self.articles.close)
        self.addCleanup(self.records.close)
        self.server = self.open()

    def tearDown(self) -> None:
        self.articles.check()
        self.records.check()

    def open(self, version: str = HANDSHAKE[0], **options: Any) -> Server:
        server = Server((self.articles, self.records), **options)
        server.answer_line(line(request("initialize", {"protocolVersion": version})))
        return server

    def send(self, raw: bytes) -> Any:
        """The answer as JSON, None if there is none. It must fit in one line of ASCII."""
        answer = self.server.answer_line(raw)
        if answer is None:
            return None
        self.assertTrue(answer.isascii() and "\n" not in answer, answer)
        return json.loads(answer, parse_constant=self.fail)

    def ask(self, method: str, params: Optional[JSON] = None) -> JSON:
        answer = self.send(line(request(method, params)))
        self.assertEqual(answer["id"], 1)
        self.assertIn("result", answer, answer)
        result: JSON = answer["result"]
        return result

    def call(self, name: str, arguments: JSON) -> JSON:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def fails(self, code: int, raw: Any, identifier: Any = 1) -> JSON:
        """The error that a message (or a raw line) is answered with. It must have changed nothing."""
        before = self.dump()
        answer = self.send(raw if isinstance(raw, bytes) else line(raw))
        self.assertEqual(list(answer), ["jsonrpc", "id", "error"])
        self.assertEqual((answer["error"]["code"], answer["id"]), (code, identifier), answer)
        self.assertEqual(self.dump(), before)
        error: JSON = answer["error"]
        return error

    def dump(self) -> List[str]:
        return [*self.articles.db.iterdump(), *self.records.db.iterdump()]

    def version(self) -> str:
        found: str = self.call("read_knowledge_article", ARTICLE)["structuredContent"]["citation"]["updated_at"]
        return found

    def edit_article(self, version: Optional[str] = None, key: str = "k1") -> JSON:
        arguments = {"content": "New.", "expected_version": version or self.version(), "idempotency_key": key}
        return self.call("edit_knowledge_article", {**ARTICLE, **arguments})


def command(*options: str) -> List[str]:
    return [sys.executable, str(ROOT / "mcp_server.py"), *options]


def run(lines: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*options), input=lines, capture_output=True, timeout=60)
