"""The server's rules: versions, what is listed, called and refused, and how."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any, Dict, List
from unittest import mock

from arguments import JSON
from kb_store import KnowledgeBaseStore
from mcp_server import HANDSHAKE, META, STATELESS, Server, serve
from record_store import RecordStore
from tests.server_case import ARTICLE, ITEM, MODERN, ServerCase, line, request


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

    def test_of_many_resources_twenty_are_named(self) -> None:
        for number in range(30):
            self.articles.create_knowledge_base(f"kb-{number}")
        instructions = self.ask("initialize", {"protocolVersion": HANDSHAKE[0]})["instructions"]
        self.assertEqual(instructions.count("kb"), 20)

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
            store.granted = frozenset(["kb"])
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
        with mock.patch.object(self.articles, "call", return_value={"a": float("nan")}), self.assertLogs(level="ERROR"):
            self.fails(-32603, edit)
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
