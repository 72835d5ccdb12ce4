"""The server's rules: versions, what is listed and called, what is refused and how, and that nothing kills it."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional
from unittest import mock

import json_rpc
from arguments import JSON
from kb_store import KnowledgeBaseStore
from mcp_server import HANDSHAKE, META, STATELESS, Server, fill_demo, serve
from record_store import RecordStore
from tests.record_case import BUG, BUGS, HOSTILE

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


class Handshake(ServerCase):
    def test_a_version_that_is_supported_is_agreed_to_and_any_other_answered_with_the_newest(self) -> None:
        for wanted in HANDSHAKE:
            self.assertEqual(self.ask("initialize", {"protocolVersion": wanted})["protocolVersion"], wanted)
        for wanted in ("2024-10-07", "2099-01-01", STATELESS[0], ""):
            self.assertEqual(self.ask("initialize", {"protocolVersion": wanted})["protocolVersion"], HANDSHAKE[0])

    def test_a_version_that_is_no_string_is_invalid(self) -> None:
        for params in ({}, {"protocolVersion": 1}, {"protocolVersion": None}, {"protocolVersion": ["2025-06-18"]}):
            self.fails(-32602, request("initialize", params))

    def test_initialize_says_who_answers_what_it_offers_and_what_can_be_reached(self) -> None:
        result = self.ask("initialize", {"protocolVersion": HANDSHAKE[0]})
        self.assertEqual(result["capabilities"], {"tools": {}})
        self.assertEqual(set(result["serverInfo"]), {"name", "version"})
        self.assertEqual(result["instructions"], 'knowledge_base_id: "kb"\nrecord_channel_id: "bugs"')

    def test_before_initialize_only_ping_is_answered(self) -> None:
        self.server = Server((self.articles, self.records))
        self.assertEqual(self.ask("ping"), {})
        self.fails(-32602, request("tools/list"))
        self.fails(-32602, request("tools/call", {"name": "read_knowledge_article", "arguments": ARTICLE}))
        self.fails(-32601, request("no/such/method"))
        self.fails(-32602, request("initialize"))
        self.fails(-32602, request("tools/list"))

    def test_an_unknown_method_is_not_found(self) -> None:
        for method in ("resources/list", "server/discover", "notifications/initialized", "", "__init__", "\ud800"):
            self.fails(-32601, request(method))

    def test_notifications_and_responses_are_never_answered_and_change_nothing(self) -> None:
        edit = {**ARTICLE, "content": "x", "expected_version": self.version(), "idempotency_key": "k"}
        before = self.dump()
        for message in (
            {"method": "notifications/initialized"},
            {"method": "notifications/cancelled", "params": {"requestId": 1}},
            {"method": "no/such/notification", "params": "anything"},
            {"method": "tools/call", "params": {"name": "edit_knowledge_article", "arguments": edit}},
            {"id": 7, "result": {}},
            {"id": None, "error": {"code": -32600, "message": "no"}},
        ):
            self.assertIsNone(self.send(line({"jsonrpc": "2.0", **message})))
        self.assertEqual(self.dump(), before)

    def test_blank_lines_are_skipped(self) -> None:
        sink = io.BytesIO()
        serve(self.server, io.BytesIO(b"\n \t\r\n\n " + line(request("ping")) + b" \r\n\n"), sink)
        self.assertEqual(len(sink.getvalue().splitlines()), 1)


class Stateless(ServerCase):
    def setUp(self) -> None:
        super().setUp()
        self.server = Server((self.articles, self.records))

    def test_a_request_that_names_its_revision_needs_no_initialize(self) -> None:
        result = self.ask("tools/call", {"name": "read_knowledge_article", "arguments": ARTICLE, "_meta": MODERN})
        self.assertEqual(result["structuredContent"]["title"], "Refunds")
        self.assertEqual(result["resultType"], "complete")
        self.assertEqual(set(result["_meta"]), {META + "serverInfo"})

    def test_discover_and_the_list_say_how_long_they_hold(self) -> None:
        result = self.ask("server/discover", {"_meta": MODERN})
        self.assertEqual(result["supportedVersions"], STATELESS + HANDSHAKE)
        self.assertEqual(result["capabilities"], {"tools": {}})
        listed = self.ask("tools/list", {"_meta": MODERN})
        for cacheable in (result, listed):
            self.assertEqual((cacheable["ttlMs"], cacheable["cacheScope"]), (60_000, "private"))

    def test_a_revision_that_is_not_served_is_answered_with_those_that_are(self) -> None:
        meta = {**MODERN, META + "protocolVersion": "2099-01-01"}
        error = self.fails(-32022, request("tools/list", {"_meta": meta}))
        self.assertEqual(error["data"], {"supported": STATELESS + HANDSHAKE, "requested": "2099-01-01"})

    def test_required_fields_of_meta_are_required(self) -> None:
        self.fails(-32602, request("tools/list", {"_meta": {META + "protocolVersion": STATELESS[0]}}))
        values: List[Any] = [None, 1, [], {}, "\ud800"]
        for value in values:
            self.fails(-32602, request("tools/list", {"_meta": {**MODERN, META + "protocolVersion": value}}))
        self.fails(-32602, request("tools/list", {"_meta": "text"}))

    def test_ping_is_gone_and_older_revisions_still_need_initialize(self) -> None:
        self.fails(-32601, request("ping", {"_meta": MODERN}))
        self.fails(-32602, request("tools/list", {"_meta": {**MODERN, META + "protocolVersion": HANDSHAKE[0]}}))

    def test_initialize_is_a_handshake_whatever_meta_says(self) -> None:
        params = {"protocolVersion": HANDSHAKE[1], "_meta": MODERN}
        self.assertNotIn("resultType", self.ask("initialize", params))
        self.assertEqual(self.ask("ping"), {})


class Tools(ServerCase):
    def test_both_stores_tools_are_listed_as_declared_and_the_poll_once(self) -> None:
        declared = KnowledgeBaseStore.TOOLS + [tool for tool in RecordStore.TOOLS if "poll" not in tool["name"]]
        self.assertEqual(self.ask("tools/list"), {"tools": declared})
        self.assertEqual(len({tool["name"] for tool in declared}), 7)
        self.assertIn("securitySchemes", declared[-1])

    def test_the_list_has_one_page(self) -> None:
        self.assertEqual(len(self.ask("tools/list", {"cursor": None})["tools"]), 7)
        self.fails(-32602, request("tools/list", {"cursor": "2"}))

    def test_a_result_comes_as_structure_and_as_the_same_json_in_text(self) -> None:
        self.articles.create_article("kb", "Grüße", "\u2028 “ü” 🙂", "a2")
        result = self.call("read_knowledge_article", {**ARTICLE, "article_id": "a2"})
        self.assertEqual(result["structuredContent"]["content"], "\u2028 “ü” 🙂")
        (content,) = result["content"]
        self.assertEqual((content["type"], result["isError"]), ("text", False))
        self.assertEqual(json.loads(content["text"]), result["structuredContent"])
        self.assertIn("Grüße", content["text"])

    def test_a_refusal_is_a_result_with_the_payload(self) -> None:
        before = self.dump()
        refused: Dict[str, JSON] = {
            "not_found": self.call("read_knowledge_article", {**ARTICLE, "article_id": "a9"}),
            "invalid_arguments": self.call("read_knowledge_article", {"article_id": 5, "x": "\ud800"}),
            "version_conflict": self.edit_article("2020-01-01T00:00:00Z"),
            "sequence_beyond_log": self.call(
                "poll_resource_events",
                {"resource_type": "record_channel", "resource_id": "bugs", "after_sequence": 99},
            ),
            "validation_failed": self.call(
                "edit_record_item",
                {**ITEM, "values": {"status": "In progress"}, "expected_version": 1, "idempotency_key": "k"},
            ),
        }
        for error, result in refused.items():
            self.assertIs(result["isError"], True)
            self.assertEqual(result["structuredContent"]["error"], error)
            self.assertEqual(json.loads(result["content"][0]["text"]), result["structuredContent"])
        self.assertEqual(self.dump(), before)

    def test_an_edit_its_replay_and_its_conflict(self) -> None:
        version = self.version()
        first, again = self.edit_article(version), self.edit_article(version)
        self.assertEqual(again["structuredContent"], {**first["structuredContent"], "replayed": True})
        late = self.edit_article(version, key="k2")
        self.assertEqual((late["isError"], late["structuredContent"]["error"]), (True, "version_conflict"))

    def test_a_poll_goes_to_the_store_of_its_resource_type(self) -> None:
        for kind, identifier, subject in (
            ("knowledge_base", "kb", "article_id"),
            ("record_channel", "bugs", "item_id"),
        ):
            polled = self.call("poll_resource_events", {"resource_type": kind, "resource_id": identifier})
            self.assertIn(subject, polled["structuredContent"]["events"][0])
        wrong: List[Any] = ["note", "", "\ud800", None, [], {}]
        for other in wrong:
            polled = self.call("poll_resource_events", {"resource_type": other, "resource_id": "kb"})
            self.assertIs(polled["isError"], True)

    def test_a_call_without_arguments_is_refused_by_the_tool(self) -> None:
        absent: List[JSON] = [{}, {"arguments": None}, {"arguments": {}}]
        for params in absent:
            result = self.ask("tools/call", {"name": "read_record_item", **params})
            self.assertEqual(result["structuredContent"]["error"], "invalid_arguments")

    def test_a_call_that_is_no_call_and_an_unknown_tool_are_invalid_params(self) -> None:
        calls: List[JSON] = [{}, {"name": None}, {"name": 5}, {"name": ["read_record_item"]}]
        for params in calls:
            self.fails(-32602, request("tools/call", params))
        wrong: List[Any] = [[], "text", 5, True]
        for arguments in wrong:
            self.fails(-32602, request("tools/call", {"name": "read_record_item", "arguments": arguments}))
        for name in ("no_such_tool", "", "check", "close", "create_article", "save_article", "\ud800", "x" * 10_000):
            error = self.fails(-32602, request("tools/call", {"name": name, "arguments": {}}))
            self.assertEqual(error["data"], {"error": "unknown_tool"})
            self.assertLess(len(error["message"]), 200)

    def test_read_only_neither_lists_nor_accepts_edits(self) -> None:
        self.server = self.open(read_only=True)
        names = [tool["name"] for tool in self.ask("tools/list")["tools"]]
        self.assertEqual(len(names), 5)
        for name in ("edit_knowledge_article", "edit_record_item"):
            self.assertNotIn(name, names)
            self.fails(-32602, request("tools/call", {"name": name, "arguments": {}}))

    def test_what_is_not_granted_is_neither_named_nor_found(self) -> None:
        self.articles.create_knowledge_base("secret")
        for store in (self.articles, self.records):
            store.granted = ["kb"]
        instructions = self.ask("initialize", {"protocolVersion": HANDSHAKE[0]})["instructions"]
        self.assertEqual(instructions, 'knowledge_base_id: "kb"\nrecord_channel_id: none yet')
        self.assertIs(self.call("read_knowledge_article", ARTICLE)["isError"], False)
        for result in (
            self.call("search_knowledge_base", {"knowledge_base_id": "secret", "query": "refunds"}),
            self.call("read_record_item", ITEM),
            self.call("poll_resource_events", {"resource_type": "record_channel", "resource_id": "bugs"}),
        ):
            self.assertEqual(result["structuredContent"]["error"], "not_found")

    def test_an_unexpected_error_is_survived_and_tells_nothing(self) -> None:
        edit = request("tools/call", {"name": "read_knowledge_article", "arguments": ARTICLE})
        for error in (RuntimeError("secret"), MemoryError("secret"), RecursionError("secret")):
            with mock.patch.object(self.articles, "call", side_effect=error), self.assertLogs(level="ERROR"):
                self.assertEqual(self.fails(-32603, edit), {"code": -32603, "message": "internal error"})
        self.assertEqual(self.ask("ping"), {})

    def test_busy_is_a_refusal_that_asks_for_the_same_call_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "shared.db"))
            with (
                contextlib.closing(KnowledgeBaseStore(path)) as writer,
                contextlib.closing(KnowledgeBaseStore(path, timeout=0.01)) as articles,
            ):
                self.server = Server((articles,))
                self.ask("initialize", {"protocolVersion": HANDSHAKE[0]})
                with writer.write:
                    result = self.edit_article("2020-01-01T00:00:00Z")
                self.assertEqual((result["isError"], result["structuredContent"]["error"]), (True, "busy"))


class BadMessages(ServerCase):
    def test_what_is_not_strict_json_is_a_parse_error(self) -> None:
        ping = line(request("ping"))
        for raw in (
            b"hello",
            ping[:-1],
            ping + ping,
            b"\xff" + ping,
            b"\xef\xbb\xbf" + ping,
            ping.decode().encode("utf-16"),
            ping.replace(b"1", b"NaN"),
            ping.replace(b"1", b"-Infinity"),
            ping.replace(b"1", b"9" * 5000),
            ping.replace(b"{}", b'{"a": 1, "a": 2}'),
            ping.replace(b"{}", b"[" * 200_000),
            ping.replace(b"{}", b'{"a":' * 200_000),
            b'{"id": 1, "id": 2, "jsonrpc": "2.0", "method": "ping"}',
            b'"\x00"',
        ):
            self.fails(-32700, raw, None)
        self.assertEqual(self.ask("ping"), {})

    def test_what_is_no_request_is_an_invalid_request(self) -> None:
        for message in (
            None,
            True,
            5,
            "ping",
            {},
            {"method": "ping"},
            {"jsonrpc": "2.0"},
            {"jsonrpc": "2.0", "method": 5},
        ):
            self.fails(-32600, message, None)
        for message in (
            {"id": 1, "method": "ping"},
            {"id": 1, "jsonrpc": "1.0", "method": "ping"},
            {"id": 1, "jsonrpc": 2.0, "method": "ping"},
            {"id": 1, "jsonrpc": "2.0"},
            {"id": 1, "jsonrpc": "2.0", "method": None},
            {"id": 1, "jsonrpc": "2.0", "method": ["ping"]},
        ):
            self.fails(-32600, message)

    def test_params_must_be_an_object(self) -> None:
        self.assertEqual(self.send(line({**request("ping"), "params": None}))["result"], {})
        for params in ([], [1], "text", 5, True):
            self.fails(-32602, {**request("ping"), "params": params})

    def test_an_id_is_echoed_as_it_is(self) -> None:
        for identifier in (0, 1, -1, 2**63, 10**900, 1.5, -0.5, 1e300, "", "a", "\0", "ü🙂\u2028", "x" * 100_000):
            answer = self.send(line(request("ping", identifier=identifier)))
            self.assertEqual(answer, {"jsonrpc": "2.0", "id": identifier, "result": {}})
            self.assertIs(type(answer["id"]), type(identifier))

    def test_an_id_that_cannot_be_echoed_is_refused(self) -> None:
        for identifier in (None, True, False, [], [1], {}, {"a": 1}, "\ud800", "a\udfff"):
            self.fails(-32600, request("ping", identifier=identifier), None)
        self.fails(-32600, b'{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}', None)

    def test_a_line_that_is_too_long_is_answered_and_skipped(self) -> None:
        ping = line(request("ping")) + b"\n"
        with mock.patch.object(json_rpc, "MAX_LINE", len(ping) + 1):
            for length in (1, 2, 3, 99, 100_000):
                long = b" " * length + ping
                source, sink = io.BytesIO(ping + long + ping), io.BytesIO()
                serve(self.server, source, sink)
                answers = [json.loads(answer) for answer in sink.getvalue().splitlines()]
                codes = [answer.get("error", {}).get("code") for answer in answers]
                self.assertEqual(codes, [None, -32700, None], length)

    def test_a_last_line_without_an_end_is_answered(self) -> None:
        sink = io.BytesIO()
        serve(self.server, io.BytesIO(line(request("ping"))), sink)
        self.assertEqual(sink.getvalue(), b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n')


class Batches(ServerCase):
    def test_only_one_revision_has_them(self) -> None:
        for version in HANDSHAKE:
            self.server = self.open(version)
            if version != "2025-03-26":
                self.fails(-32600, [request("ping")], None)
        self.server = Server((self.articles, self.records))
        self.fails(-32600, [request("ping")], None)

    def test_each_request_in_it_is_answered_and_nothing_else(self) -> None:
        self.server = self.open("2025-03-26")
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        answers = self.send(line([request("ping", identifier=5), note, 7, request("nothing", identifier="b")]))
        self.assertEqual([answer["id"] for answer in answers], [5, None, "b"])
        self.assertEqual([answer.get("error", {}).get("code") for answer in answers], [None, -32600, -32601])
        self.assertIsNone(self.send(line([note, note])))

    def test_it_must_not_be_empty_nor_too_long_nor_hold_initialize(self) -> None:
        self.server = self.open("2025-03-26")
        for batch in ([], [request("ping")] * 101, [request("initialize", {"protocolVersion": HANDSHAKE[0]})]):
            self.fails(-32600, batch, None)
        self.assertEqual(len(self.send(line([request("ping")] * 100))), 100)


# --- hostile lines ----------------------------------------------------------------------------------------------------

METHODS = ["tools/call"] * 6 + ["tools/list", "initialize", "ping", "server/discover", "x", "\ud800"]
IDS: List[Any] = [*range(10), *"abc", -(2**70), 1.5, None, True, [], {}, "\ud800", "\0"]
JSON_HOSTILE = [value for value in HOSTILE if isinstance(value, (type(None), bool, int, float, str))]
TEXTS = [
    "",
    "\0",
    "\ud800",
    "'; DROP TABLE article; --",
    '" OR title : x',
    "*",
    "a" * 5000,
    "ü🙂\u202e",
    "kb",
    "a1",
    "bugs",
]
TOOLS = {tool["name"]: tool["inputSchema"] for tool in KnowledgeBaseStore.TOOLS + RecordStore.TOOLS}


class Fuzzer:
    """Endless hostile lines, the same for the same seed and versions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.article_version, self.item_version = (
            "2026-11-08T09:00:00Z",
            1,
        )  # a test keeps them current, so that edits succeed
        self.keys = (f"key-{seed}-{number}" for number in itertools.count())

    def lines(self) -> Iterator[bytes]:
        while True:
            raw = json.dumps(self.message(), ensure_ascii=self.chance(0.9)).encode(errors="surrogatepass")
            raw = self.damaged(raw) if self.chance(0.2) else raw
            yield (raw or b"{") + b"\n"

    def message(self) -> Any:
        if self.chance(0.05):
            return self.anything()
        if self.chance(0.03):
            return [self.message() for _ in range(self.random.randrange(4))]
        message = {"jsonrpc": "2.0", "id": self.random.choice(IDS), "method": self.random.choice(METHODS)}
        message["params"] = self.params()
        for name in list(message):
            if self.chance(0.04):
                del message[name]
            elif self.chance(0.04):
                message[name] = self.anything()
        return message

    def params(self) -> JSON:
        name = self.random.choice(list(TOOLS))
        arguments = {
            key: self.value(key, rule)
            for key, rule in TOOLS[name]["properties"].items()
            if key in TOOLS[name]["required"] or self.chance(0.3)
        }
        if self.chance(0.2):
            arguments[self.random.choice([*arguments, "x", ""])] = self.anything()
        params: JSON = {
            "name": name,
            "arguments": arguments,
            "protocolVersion": self.random.choice([*HANDSHAKE, "", "x"]),
        }
        if self.chance(0.2):
            params["_meta"] = {**MODERN, **({META + "protocolVersion": self.anything()} if self.chance(0.2) else {})}
        return params

    def value(self, key: str, rule: JSON) -> Any:
        """Mostly what gets through the door, so that what is behind it is reached too."""
        if self.chance(0.05):
            return self.anything()
        if key == "values" and self.chance(0.5):
            return {"title": "A bug", "points": 3}
        if key == "values":
            return {self.random.choice(["title", "status", "points", "due", "x"]): self.anything() for _ in range(2)}
        good = {
            **ARTICLE,
            **ITEM,
            "idempotency_key": next(self.keys),
            "resource_type": "knowledge_base",
            "resource_id": "kb",
        }
        if rule["type"] == "integer":
            return self.random.choice([self.item_version, 1, 50, 0, -1, 2**63])
        if key == "expected_version":
            return self.random.choice([self.article_version, "1999-01-01T00:00:00Z"])
        return good.get(key, "") if self.chance(0.95) and key in good else self.random.choice(TEXTS)

    def anything(self, depth: int = 0) -> Any:
        kind = self.random.randrange(6 if depth < 4 else 4)
        if kind < 2:
            return self.random.choice(JSON_HOSTILE)
        if kind < 4:
            return self.random.choice(TEXTS)
        many = range(self.random.randrange(4))
        if kind == 4:
            return [self.anything(depth + 1) for _ in many]
        return {self.random.choice(TEXTS): self.anything(depth + 1) for _ in many}

    def damaged(self, raw: bytes) -> bytes:
        at, other = (self.random.randrange(len(raw) + 1) for _ in range(2))
        start, end = min(at, other), max(at, other)
        bits = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"NaN", b"1e999", b"9" * 5000, b"[" * 50_000, b'"', b"\0", b"{}"]
        return self.random.choice(
            [raw[:at], raw[at:], raw[:start] + raw[end:], raw + raw, raw[:at] + self.random.choice(bits) + raw[at:]]
        )

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability


def due(raw: bytes, batches: bool) -> str:
    """What a line must be answered with, found out apart from the server: nothing, error, any or batch."""
    try:
        message = json.loads(
            raw.decode(),
            parse_constant=int,  # refuses NaN
            parse_int=lambda digits: int(digits if len(digits) <= 1000 else "too long"),
            object_pairs_hook=lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else int("a name twice"),
        )
    except (ValueError, RecursionError):
        return "error"
    if isinstance(message, list):
        return "batch" if batches else "error"
    if not isinstance(message, dict):
        return "error"
    if "method" not in message:
        return "nothing" if "result" in message or "error" in message else "error"
    if "id" not in message and message.get("jsonrpc") == "2.0" and isinstance(message["method"], str):
        return "nothing"
    return "any" if "id" in message else "error"


class HostileLines(ServerCase):
    def test_every_line_is_answered_as_it_must_be_and_no_refused_one_changes_anything(self) -> None:
        for seed in (1, 2, 3):
            self.server = self.open()
            edits = self.play(Fuzzer(seed), 2_000, f"seed {seed}")
            self.assertGreater(edits, 5, "the fuzzer no longer reaches what it should")

    def play(self, fuzzer: Fuzzer, count: int, about: str) -> int:
        """How many lines changed something, all of them edits that were answered as done."""
        self.tell_versions(fuzzer)
        edits, known = 0, self.dump()
        for number, raw in enumerate(itertools.islice(fuzzer.lines(), count)):
            where = f"{about}, line {number}: {raw[:2000]!r}"
            kind = due(raw, self.server.version == "2025-03-26")
            changes = self.articles.db.total_changes + self.records.db.total_changes
            answer = self.send(raw)
            for single in answer if isinstance(answer, list) else [answer]:
                self.check_answer(single, kind, where)
            if self.articles.db.total_changes + self.records.db.total_changes != changes:
                self.articles.search_knowledge_base("kb", "refunds")  # brings the index up to date
                after = self.dump()
                if after != known:
                    self.assertTrue(kind == "batch" or answer.get("result", {}).get("isError") is False, where)
                    self.assertIn(b"edit_", raw, where)
                    edits, known = edits + 1, after
                    self.tell_versions(fuzzer)
        self.assertEqual(self.dump(), known, about)
        return edits

    def tell_versions(self, fuzzer: Fuzzer) -> None:
        fuzzer.article_version = self.articles.read_knowledge_article("kb", "a1")["citation"]["updated_at"]
        fuzzer.item_version = self.records.read_record_item("bugs", "bug-1")["version"]

    def check_answer(self, answer: Any, kind: str, about: str) -> None:
        if answer is None:
            self.assertIn(kind, ("nothing", "batch"), about)
            return
        self.assertNotEqual(kind, "nothing", about)
        self.assertEqual(set(answer), {"jsonrpc", "id", "error" if "error" in answer else "result"}, about)
        if kind == "error":
            self.assertIn("error", answer, about)
        if "error" in answer:
            self.assertIn(answer["error"]["code"], (-32700, -32600, -32601, -32602, -32022), about)
        else:
            self.assertNotIsInstance(answer["id"], (bool, type(None)), about)

    def test_a_process_answers_them_too_and_writes_nothing_else(self) -> None:
        raw = list(itertools.islice(Fuzzer(4).lines(), 2_000))
        raw = [one for one in raw if b"2025-03-26" not in one]  # without batches each line is due one answer or none
        done = run(b"".join(raw), "--demo")
        answers = [json.loads(answer) for answer in done.stdout.splitlines()]
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(len(answers), sum(due(one, False) != "nothing" for one in raw), "seed 4")


# --- the process ------------------------------------------------------------------------------------------------------


def command(*options: str) -> List[str]:
    return [sys.executable, str(ROOT / "mcp_server.py"), *options]


def run(lines: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*options), input=lines, capture_output=True, timeout=60)


class Process(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(Path(folder.name, "shared.db"))

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command(*options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ask(self, process: subprocess.Popen[bytes], method: str, params: Optional[JSON] = None) -> Any:
        assert process.stdin and process.stdout
        process.stdin.write(line(request(method, params)) + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())["result"]

    def call(self, process: subprocess.Popen[bytes], name: str, arguments: JSON) -> JSON:
        params = {"name": name, "arguments": arguments, "_meta": MODERN}
        payload: JSON = self.ask(process, "tools/call", params)["structuredContent"]
        return payload

    def test_a_closed_pipe_is_a_clean_exit(self) -> None:
        done = run(b"")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
        process = self.start()
        self.ask(process, "ping")
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        for _ in range(2):
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(line(request("ping")) + b"\n")
                process.stdin.flush()
        self.assertEqual((process.wait(10), process.stderr.read()), (0, b""))
        process.stdout = None

    def test_an_interrupt_is_a_clean_exit(self) -> None:
        process = self.start()
        self.ask(process, "ping")
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.communicate(timeout=10), process.returncode), ((b"", b""), 0))

    def test_a_wrong_option_or_file_is_one_line_and_exit_code_2(self) -> None:
        no_database = Path(self.path).with_name("notes.txt")
        no_database.write_text("Not a database, but quite long enough to be taken for one. " * 20)
        for options in (
            ["--no-such-option"],
            ["--db"],
            ["extra"],
            ["--db", str(no_database)],
            ["--db", str(no_database.parent)],
            ["--db", str(no_database.parent / "missing" / "x.db")],
        ):
            done = run(b"", *options)
            self.assertEqual((done.returncode, done.stdout), (2, b""), options)
            self.assertRegex(done.stderr.decode(), r"\Amcp_server.py: [^\n]+\n\Z")

    def test_a_huge_line_is_survived(self) -> None:
        huge = line(request("ping", {"a": "x" * json_rpc.MAX_LINE}))
        done = run(huge + b"\n" + line(request("ping")) + b"\n")
        self.assertEqual(done.stderr, b"")
        self.assertEqual([sorted(json.loads(answer))[0] for answer in done.stdout.splitlines()], ["error", "id"])

    def test_the_demo_has_what_the_scripts_have_and_is_filled_in_once(self) -> None:
        first = self.start("--demo", "--db", self.path)
        found = self.call(first, "search_knowledge_base", {"knowledge_base_id": "kb", "query": "refunds", "limit": 20})
        page = self.call(first, "list_record_items", {"record_channel_id": "bugs"})
        self.assertEqual((len(found["results"]), len(page["items"])), (20, 50))
        citation = found["results"][0]["citation"]
        where = {name: citation[name] for name in ("knowledge_base_id", "article_id")}
        edit = {**where, "content": "New.", "expected_version": citation["updated_at"], "idempotency_key": "k"}
        self.assertIs(self.call(first, "edit_knowledge_article", edit)["replayed"], False)
        second = self.start("--demo", "--db", self.path)
        self.assertEqual(self.call(second, "read_knowledge_article", where)["content"], "New.")
        poll = {"resource_type": "knowledge_base", "resource_id": "kb", "after_sequence": 400}
        events = self.call(second, "poll_resource_events", poll)["events"]
        self.assertEqual([event["article_id"] for event in events], [where["article_id"]])

    def test_a_demo_that_was_interrupted_is_completed(self) -> None:
        with contextlib.closing(KnowledgeBaseStore()) as articles, contextlib.closing(RecordStore()) as records:
            with mock.patch.object(records, "create_item", side_effect=KeyboardInterrupt):
                self.assertRaises(KeyboardInterrupt, fill_demo, articles, records)
            for _ in range(2):
                fill_demo(articles, records)
                self.assertEqual((articles.latest_sequence("kb"), records.latest_sequence("bugs")), (400, 200))
            articles.check()
            records.check()

    def test_options_reach_the_server(self) -> None:
        process = self.start("--demo", "--read-only", "--grant", "bugs", "--grant", "other")
        self.assertEqual(len(self.ask(process, "tools/list", {"_meta": MODERN})["tools"]), 5)
        about = self.ask(process, "initialize", {"protocolVersion": HANDSHAKE[0]})["instructions"]
        self.assertEqual(about, 'knowledge_base_id: none yet\nrecord_channel_id: "bugs"')


if __name__ == "__main__":
    unittest.main()
