"""Serves both stores' tools to a real client: the Model Context Protocol over standard input and output.

Glossary
    message       one line of JSON: a request, a notification or a response; see json_rpc.py
    answer        one line of JSON: {jsonrpc, id, result} or {jsonrpc, id, error: {code, message}}
    tool refusal  what a store's ToolError says: a result with isError true, which the model reads and can act on
    failure       what is wrong with a message, not with a call: an error, which is for the client's programmer
    handshake     up to revision 2025-11-25 `initialize` comes first and settles the revision for all that follows
    stateless     from revision 2026-07-28 there is no `initialize`: each request names its revision in params._meta

An argument that does not fit is a tool refusal and an unknown tool is a failure, as the specification has it: the model
can correct the one, but it can only have the other from a client that offers what was not listed.

Source: modelcontextprotocol.io/specification, revisions 2024-11-05 to 2026-07-28.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import sys
import time
from contextlib import closing
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Sequence

import bug_tracker
import support_day
from arguments import JSON, ToolError, shown, to_json
from command_line import OneLineParser
from json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_LINE,
    METHOD_NOT_FOUND,
    Failure,
    checked_id,
    error_answer,
    is_text,
    object_or_absent,
    parse,
    read_lines,
)
from kb_store import KnowledgeBaseStore
from record_store import RecordStore
from tool_store import ToolStore

STATELESS = ["2026-07-28"]
HANDSHAKE = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]  # newest first
BATCHES = "2025-03-26"  # the one revision in which a line may hold an array of messages …
MAX_BATCH = 100  # … and how many of them: answers can be much longer than what they answer

SERVER_INFO = {"name": "agent-tools", "version": "1.0"}
META = "io.modelcontextprotocol/"
CACHEABLE = {"ttlMs": 60_000, "cacheScope": "private"}  # the list depends on the options: a minute after a restart

UNSUPPORTED_VERSION = -32022

Method = Callable[[JSON], JSON]  # takes a request's params, returns its result


class Server:
    """Answers one client's messages. With `read_only` the tools that change something do not exist."""

    def __init__(self, stores: Sequence[ToolStore], read_only: bool = False) -> None:
        self.stores = stores
        self.version: Optional[str] = None  # what `initialize` settled
        self.declarations: List[JSON] = []
        self.stores_with: Dict[str, List[ToolStore]] = {}
        for store in stores:
            for tool in store.TOOLS:
                if read_only and not tool["annotations"]["readOnlyHint"]:
                    continue
                if tool["name"] not in self.stores_with:  # both stores declare the poll
                    self.declarations.append(tool)
                self.stores_with.setdefault(tool["name"], []).append(store)
        self.handshake_methods: Dict[str, Method] = {
            "initialize": self.initialize,
            "ping": lambda params: {},
            "tools/list": self.list_tools,
            "tools/call": self.call_tool,
        }
        self.stateless_methods: Dict[str, Method] = {
            "server/discover": self.discover,
            "tools/list": lambda params: {**self.list_tools(params), **CACHEABLE},
            "tools/call": self.call_tool,
        }

    # --- messages -----------------------------------------------------------------------------------------------------

    def answer_line(self, line: bytes) -> Optional[str]:
        """The answer to one line, in ASCII and without a line end; None if none is due."""
        try:
            message = parse(line)
        except Failure as failure:
            return json.dumps(error_answer(None, failure))
        if isinstance(message, list):
            return self.answer_batch(message)
        answer = self.answer(message)
        return None if answer is None else json.dumps(answer)

    def answer(self, message: Any, has_room: bool = True) -> Optional[JSON]:
        """The answer to one message; None to a notification or a response. Raises nothing.

        A request of a batch whose answers fill a line already has no room for its own, and is not carried out.
        """
        request_id = None
        try:
            if not isinstance(message, dict):
                raise Failure(INVALID_REQUEST, f"a message must be an object, got {shown(message)}")
            if "method" not in message and ("result" in message or "error" in message):
                return None
            request_id = checked_id(message)
            method = message.get("method")
            if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
                raise Failure(INVALID_REQUEST, 'a message must have "jsonrpc": "2.0" and a method')
            if "id" not in message:
                return None  # none of the notifications that clients send asks this server for anything
            if not has_room:
                problem = f"not carried out: the answers before it have {MAX_LINE:,} characters; send it again"
                raise Failure(INTERNAL_ERROR, problem)
            result = self.result(method, object_or_absent(message, "params"))
            return {"jsonrpc": "2.0", "id": request_id, "result": result}
        except Failure as failure:
            return error_answer(request_id, failure)
        except Exception:
            logging.exception("internal error")  # to standard error; a client learns no more than that there was one
            return error_answer(request_id, Failure(INTERNAL_ERROR, "internal error"))

    def answer_batch(self, messages: List[Any]) -> Optional[str]:
        """A list of answers, None if none is due, or one error for the batch as a whole."""
        if self.version != BATCHES:
            return json.dumps(error_answer(None, Failure(INVALID_REQUEST, f"only revision {BATCHES} has batches")))
        methods = [message.get("method") for message in messages if isinstance(message, dict)]
        if "initialize" in methods or not 1 <= len(messages) <= MAX_BATCH:
            problem = f"a batch must hold 1 to {MAX_BATCH} messages, none of them initialize"
            return json.dumps(error_answer(None, Failure(INVALID_REQUEST, problem)))
        answers: List[str] = []
        for message in messages:
            answer = self.answer(message, has_room=sum(map(len, answers)) < MAX_LINE)
            if answer is not None:
                answers.append(json.dumps(answer))
        return f"[{', '.join(answers)}]" if answers else None

    def result(self, method: str, params: JSON) -> JSON:
        """Raises Failure."""
        stateless = method != "initialize" and is_stateless(object_or_absent(params, "_meta"))
        methods = self.stateless_methods if stateless else self.handshake_methods
        if method not in methods:
            raise Failure(METHOD_NOT_FOUND, f"no method is called {shown(method)}")
        if not stateless and self.version is None and method not in ("initialize", "ping"):
            raise Failure(INVALID_PARAMS, f"initialize first, or name revision {STATELESS[0]} in params._meta")
        result = methods[method](params)
        if stateless:
            result = {"resultType": "complete", **result, "_meta": {META + "serverInfo": SERVER_INFO}}
        return result

    # --- methods ------------------------------------------------------------------------------------------------------

    def initialize(self, params: JSON) -> JSON:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise Failure(INVALID_PARAMS, "protocolVersion must be a string")
        self.version = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
        return {"protocolVersion": self.version, "serverInfo": SERVER_INFO, **self.about()}

    def discover(self, params: JSON) -> JSON:
        return {"supportedVersions": STATELESS + HANDSHAKE, **self.about(), **CACHEABLE}

    def list_tools(self, params: JSON) -> JSON:
        if params.get("cursor") is not None:
            raise Failure(INVALID_PARAMS, "the list has one page, so no cursor was ever given out")
        return {"tools": self.declarations}

    def call_tool(self, params: JSON) -> JSON:
        name, arguments = params.get("name"), object_or_absent(params, "arguments")
        if not isinstance(name, str):
            raise Failure(INVALID_PARAMS, f"name must be a string, got {shown(name)}")
        if name not in self.stores_with:
            raise Failure(INVALID_PARAMS, f"Unknown tool: {shown(name)}", {"error": "unknown_tool"})
        candidates = self.stores_with[name]
        wanted = arguments.get("resource_type")
        store = next((store for store in candidates if store.resource_type == wanted), candidates[0])
        try:
            payload, refused = store.call(name, arguments), False
        except ToolError as refusal:
            payload, refused = refusal.payload, True
        text = to_json(payload)  # not escaped: "ü" is less to read than "\u00fc"
        return {"content": [{"type": "text", "text": text}], "structuredContent": payload, "isError": refused}

    def about(self) -> JSON:
        """No tool lists the resources, so the instructions name them to the agent: of each type the first 20."""
        lines = []
        for store in self.stores:
            kind = store.resource_type
            reachable = [shown(name) for name in resources(store) if store.granted is None or name in store.granted]
            lines.append(f"{kind}_id: {', '.join(reachable[:20]) or 'none yet'}")
        return {"capabilities": {"tools": {}}, "instructions": "\n".join(lines)}


# --- helpers ----------------------------------------------------------------------------------------------------------


def resources(store: ToolStore) -> List[str]:
    """The ids of all knowledge bases or record channels there are."""
    kind = store.resource_type  # also the name of the table
    return [row[0] for row in store.db.execute(f"SELECT {kind}_id FROM {kind} ORDER BY {kind}_id")]


def is_stateless(meta: JSON) -> bool:
    """Whether a request names a revision that has no handshake. Raises Failure if it is one that is not served."""
    version = meta.get(META + "protocolVersion", HANDSHAKE[0])
    if version in HANDSHAKE:
        return False
    if not is_text(version):
        raise Failure(INVALID_PARAMS, f"{META}protocolVersion must be a string, got {shown(version)}")
    if version not in STATELESS:
        versions = {"supported": STATELESS + HANDSHAKE, "requested": version}
        raise Failure(UNSUPPORTED_VERSION, "Unsupported protocol version", versions)
    if not isinstance(meta.get(META + "clientCapabilities"), dict):
        raise Failure(INVALID_PARAMS, f"{META}clientCapabilities must be an object")
    return True


# --- the process ------------------------------------------------------------------------------------------------------


def serve(server: Server, source: BinaryIO, sink: BinaryIO) -> None:
    """Until the source ends. Raises BrokenPipeError when nobody reads the answers any more."""
    for line in read_lines(source):
        answer = server.answer_line(line)
        if answer is not None:
            sink.write(answer.encode("ascii") + b"\n")
            sink.flush()


def fill_demo(knowledge_base: KnowledgeBaseStore, records: RecordStore) -> None:
    """The support day's 400 articles as they are when seed 1's day begins, and 200 bugs, the last one opened now.

    They go where nothing was created but the first of these, in this order. So an interrupted run is completed, a
    second one changes nothing, and a knowledge base or channel of somebody's own is left alone, with a warning.
    """
    fill_demo_articles(knowledge_base)
    fill_demo_bugs(records)


def fill_demo_articles(knowledge_base: KnowledgeBaseStore) -> None:
    knowledge_base.create_knowledge_base(support_day.KB)
    topics = support_day.plan_day(1, support_day.default_options()).topics
    if not is_demos(knowledge_base, support_day.KB, [support_day.article_id(rank) for rank in range(len(topics))]):
        return
    for rank, (title, content) in enumerate(support_day.first_texts(1, topics)):
        unless_taken(knowledge_base.create_article, support_day.KB, title, content, support_day.article_id(rank))


def fill_demo_bugs(records: RecordStore) -> None:
    unless_taken(records.create_channel, bug_tracker.CHANNEL, bug_tracker.FIELDS)
    bugs = bug_tracker.new_bugs(1, 200)
    made_by_demo = records.schema(bug_tracker.CHANNEL, 1).fields == bug_tracker.FIELDS
    if not is_demos(records, bug_tracker.CHANNEL, [item_id for item_id, _ in bugs], made_by_demo):
        return
    records.clock = bug_tracker.Clock(time.time() - len(bugs) * bug_tracker.OPENED_EVERY, step=bug_tracker.OPENED_EVERY)
    for item_id, values in bugs:
        unless_taken(records.create_item, bug_tracker.CHANNEL, values, item_id)
    records.clock = time.time


def is_demos(store: ToolStore, resource_id: str, ids: List[str], made_by_demo: bool = True) -> bool:
    """Whether what was created there, first to last, is what the demo creates: nothing yet, some of it, or all."""
    created = store.db.execute(
        """SELECT subject_id FROM event WHERE resource_type = ? AND resource_id = ? AND type = 'created'
           ORDER BY sequence LIMIT ?""",
        (store.resource_type, resource_id, len(ids)),
    ).fetchall()
    if made_by_demo and [subject_id for (subject_id,) in created] == ids[: len(created)]:
        return True
    logging.warning("--demo: %s %s holds something else and is left as it is", store.resource_type, shown(resource_id))
    return False


def unless_taken(create: Callable[..., object], *arguments: Any) -> None:
    """Passes over what is there already, and what a schema that people have changed since no longer takes."""
    try:
        create(*arguments)
    except ToolError as refusal:
        if refusal.payload["error"] not in ("invalid_arguments", "validation_failed"):
            raise


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Exit codes: 0 when the client closes a pipe or interrupts, 2 for a wrong option, file or pipe.

    What does not stop the server is said on standard error, one line for each.
    """
    logging.basicConfig(format="mcp_server.py: %(message)s")
    parser = OneLineParser(prog="mcp_server.py", description=(__doc__ or "").split("\n")[0], allow_abbrev=False)
    parser.add_argument("--db", metavar="FILE", default=":memory:", help="an SQLite file (default: in memory)")
    parser.add_argument("--demo", action="store_true", help="fill in a knowledge base and a bug tracker to ask about")
    parser.add_argument(
        "--read-only", action="store_true", help="no tools that edit; a search may still update the index"
    )
    parser.add_argument("--grant", metavar="ID", action="append", help="reach only what has this id (may be repeated)")
    options = parser.parse_args(argv)
    db, grant = options.db, options.grant
    if sys.stdin is None or sys.stdout is None:
        parser.error("standard input and standard output must be open")
    try:
        with (
            closing(KnowledgeBaseStore(db, granted=grant)) as articles,
            closing(RecordStore(db, granted=grant)) as bugs,
        ):
            if options.demo:
                fill_demo(articles, bugs)
            for resource_id in sorted({*(grant or ())} - {*resources(articles), *resources(bugs)}):
                logging.warning("--grant %s: no knowledge base or record channel has this id", shown(resource_id))
            serve(Server((articles, bugs), options.read_only), sys.stdin.buffer, sys.stdout.buffer)
    except (sqlite3.Error, ToolError, ValueError) as error:
        parser.error(f"--db {db}: {error}")
    except (OSError, KeyboardInterrupt) as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be flushed has no reader
        if not isinstance(error, (BrokenPipeError, KeyboardInterrupt)):
            parser.error(str(error))  # such as a full disk


if __name__ == "__main__":
    main()
