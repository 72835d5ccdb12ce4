"""What is no message, and what no client would send: each line is answered as it must be and changes nothing."""

from __future__ import annotations

import io
import itertools
import json
import random
from typing import Any, Iterator, List
from unittest import mock

import json_rpc
from arguments import JSON
from kb_store import KnowledgeBaseStore
from mcp_server import HANDSHAKE, META, Server, serve
from record_store import RecordStore
from tests.record_case import HOSTILE
from tests.server_case import ARTICLE, ITEM, MODERN, ServerCase, line, request, run


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
            ping.replace(b"1", b"9" * 1001),
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

    def test_what_has_no_room_in_its_answer_is_not_carried_out(self) -> None:
        self.server = self.open("2025-03-26")
        read = request("tools/call", {"name": "read_knowledge_article", "arguments": ARTICLE})
        citation = self.articles.read_knowledge_article("kb", "a1")["citation"]
        arguments = {**ARTICLE, "content": "x", "expected_version": citation["updated_at"], "idempotency_key": "k"}
        edit = request("tools/call", {"name": "edit_knowledge_article", "arguments": arguments}, "edit")
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        with mock.patch("mcp_server.MAX_LINE", 1000):
            answers = self.send(line([*[read] * 9, note, edit]))
        self.assertEqual(answers[-1]["id"], "edit")
        errors = [answer.get("error", {}).get("code") for answer in answers]
        carried_out = errors.index(-32603)
        self.assertEqual(errors, [None] * carried_out + [-32603] * (10 - carried_out))
        self.assertIn(carried_out, range(1, 9))
        self.assertEqual(self.articles.read_knowledge_article("kb", "a1")["citation"], citation)


# --- hostile lines ----------------------------------------------------------------------------------------------------

METHODS = ["tools/call"] * 6 + ["tools/list", "initialize", "ping", "server/discover", "x", "\ud800"]
IDS: List[Any] = [*range(10), *"abc", -(2**70), 1.5, None, True, [], {}, "\ud800", "\0"]
JSON_HOSTILE = [value for value in HOSTILE if isinstance(value, (type(None), bool, int, float, str))]
TEXTS = [
    "",
    "\0",
    "\ud800",
    "'; DROP TABLE article; --",
    '" OR text : x',
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
