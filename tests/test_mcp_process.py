"""The server as a process: its pipes, options, files and demo."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import json_rpc
import support_day
from arguments import JSON, ToolError
from kb_store import KnowledgeBaseStore
from mcp_server import HANDSHAKE, fill_demo
from record_store import RecordStore
from tests.record_case import field
from tests.server_case import MODERN, command, line, request, run


class Process(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(Path(folder.name, "shared.db"))

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command(*options), stdin=pipe, stdout=pipe, stderr=pipe, env=buffered)
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
        another_programs = Path(self.path).with_name("other.db")
        with contextlib.closing(sqlite3.connect(another_programs)) as db:
            db.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, name TEXT)")
        for options in (
            ["--no-such-option"],
            ["--db", ""],
            ["--db", str(another_programs)],
            ["--db"],
            ["extra"],
            ["--db", str(no_database)],
            ["--db", str(no_database.parent)],
            ["--db", str(no_database.parent / "missing" / "x.db")],
        ):
            done = run(b"", *options)
            self.assertEqual((done.returncode, done.stdout), (2, b""), options)
            self.assertRegex(done.stderr.decode(), r"\Amcp_server.py: [^\n]+\n\Z")

    def test_a_pipe_that_cannot_be_used_is_one_line_and_exit_code_2(self) -> None:
        server = " ".join(map(shlex.quote, command()))
        ping = shlex.quote(line(request("ping")).decode())
        full = [f"echo {ping} | {server} >/dev/full"] if os.path.exists("/dev/full") else []
        for script in (f"{server} >&-", f"{server} <&-", *full):
            done = subprocess.run(script, shell=True, capture_output=True, timeout=30)
            self.assertEqual((done.returncode, done.stdout), (2, b""), script)
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
                self.assertIs(records.clock, time.time)
            with mock.patch.object(records, "create_item", side_effect=ToolError("busy")):
                self.assertRaises(ToolError, fill_demo, articles, records)
            articles.check()
            records.check()

    def test_the_demo_leaves_alone_what_is_somebodys_own(self) -> None:
        with (
            contextlib.closing(KnowledgeBaseStore(self.path)) as articles,
            contextlib.closing(RecordStore(self.path)) as records,
        ):
            articles.create_knowledge_base("kb")
            articles.create_article("kb", "Mine", "Text")
            records.create_channel("bugs", [field("name", "text")])
            done = run(b"", "--demo", "--db", self.path)
            self.assertEqual((done.returncode, done.stdout), (0, b""))
            self.assertRegex(
                done.stderr.decode(),
                r'\Amcp_server.py: --demo: knowledge_base "kb" [^\n]+\n'
                r'mcp_server.py: --demo: record_channel "bugs" [^\n]+\n\Z',
            )
            self.assertEqual((articles.latest_sequence("kb"), records.latest_sequence("bugs")), (1, 0))

    def test_the_demo_is_completed_after_edits_and_extended_by_nobody(self) -> None:
        with contextlib.closing(KnowledgeBaseStore()) as articles, contextlib.closing(RecordStore()) as records:
            create = mock.Mock(side_effect=[*[mock.DEFAULT] * 3, KeyboardInterrupt], wraps=articles.create_article)
            with mock.patch.object(articles, "create_article", create):
                self.assertRaises(KeyboardInterrupt, fill_demo, articles, records)
            self.assertEqual(articles.latest_sequence("kb"), 3)
            articles.save_article("kb", support_day.article_id(1), "Other")
            fill_demo(articles, records)
            self.assertEqual((articles.latest_sequence("kb"), records.latest_sequence("bugs")), (401, 200))
            articles.create_article("kb", "Mine", "Text")
            records.change_schema("bugs", [field("name", "text")])
            with mock.patch("logging.warning", side_effect=AssertionError):
                fill_demo(articles, records)
            self.assertEqual((articles.latest_sequence("kb"), records.latest_sequence("bugs")), (402, 200))

    def test_a_grant_of_what_is_not_there_is_said_and_served(self) -> None:
        done = run(line(request("ping")) + b"\n", "--grant", "typo", "--grant", "bugs", "--grant", "kb", "--demo")
        self.assertEqual(
            (done.returncode, done.stderr.decode()),
            (0, 'mcp_server.py: --grant "typo": no knowledge base or record channel has this id\n'),
        )
        self.assertEqual(json.loads(done.stdout)["result"], {})

    def test_options_reach_the_server(self) -> None:
        params = {"protocolVersion": HANDSHAKE[0]}
        about = self.ask(self.start(), "initialize", params)["instructions"]
        self.assertEqual(about, "knowledge_base_id: none yet\nrecord_channel_id: none yet")
        process = self.start("--demo", "--read-only", "--grant", "bugs", "--grant", "other")
        self.assertEqual(len(self.ask(process, "tools/list", {"_meta": MODERN})["tools"]), 5)
        about = self.ask(process, "initialize", params)["instructions"]
        self.assertEqual(about, 'knowledge_base_id: none yet\nrecord_channel_id: "bugs"')
