"""Talks to `python mcp_server.py --demo` through the official SDK's client: does a client we did not write agree?

    python -m venv /tmp/sdk && /tmp/sdk/bin/pip install mcp==2.3.0 && /tmp/sdk/bin/python tests/sdk_client.py

Runs once with the handshake and once stateless. Says "skipped" where the SDK is absent. Not a unittest: the project
itself has no dependencies, so its tests have none either.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Dict

try:
    from mcp import Client, MCPError, StdioServerParameters  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    print("skipped: the package mcp is not installed")
    sys.exit(0)

SERVER = StdioServerParameters(
    command=sys.executable, args=[str(Path(__file__).parent.parent / "mcp_server.py"), "--demo"]
)


async def play(mode: str, version: str) -> None:
    async with Client(SERVER, mode=mode) as client:
        expect(client.protocol_version, version)
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        expect(len(tools), 7)
        editing = tools["edit_knowledge_article"]
        expect(editing.annotations.destructive_hint if editing.annotations else None, True)
        expect(editing.input_schema["additionalProperties"], False)
        await edit_replay_conflict(client)
        await refusals(client)


async def edit_replay_conflict(client: Client) -> None:
    kb = {"knowledge_base_id": "kb"}
    found = await call(client, "search_knowledge_base", {**kb, "query": "refunds", "limit": 1})
    where = {**kb, "article_id": found["results"][0]["citation"]["article_id"]}
    read = await call(client, "read_knowledge_article", where)
    log = {"resource_type": "knowledge_base", "resource_id": "kb"}
    end = (await call(client, "poll_resource_events", log))["latest_sequence"]

    edit = {**where, "content": "Grüße 🙂", "expected_version": read["citation"]["updated_at"], "idempotency_key": "k1"}
    first = await call(client, "edit_knowledge_article", edit)
    expect(first["replayed"], False)
    expect(await call(client, "edit_knowledge_article", edit), {**first, "replayed": True})
    conflict = await call(client, "edit_knowledge_article", {**edit, "idempotency_key": "k2"}, is_error=True)
    expect(conflict["error"], "version_conflict")
    expect((await call(client, "read_knowledge_article", where))["content"], "Grüße 🙂")

    events = (await call(client, "poll_resource_events", {**log, "after_sequence": end}))["events"]
    expect([(event["type"], event["article_id"]) for event in events], [("saved", where["article_id"])])


async def refusals(client: Client) -> None:
    page = await call(client, "list_record_items", {"record_channel_id": "bugs", "limit": 1})
    item = {"record_channel_id": "bugs", "item_id": page["items"][0]["item_id"]}
    edit = {**item, "values": {"status": "Won't fix"}, "expected_version": 1, "idempotency_key": "k3"}
    refused = await call(client, "edit_record_item", edit, is_error=True)
    expect([field["key"] for field in refused["fields"]], ["status"])
    expect((await call(client, "read_record_item", {}, is_error=True))["error"], "invalid_arguments")
    try:
        await client.call_tool("no_such_tool", {})
    except MCPError as error:
        expect(error.code, -32602)
    else:
        raise SystemExit("an unknown tool was not refused")


async def call(client: Client, name: str, arguments: Dict[str, Any], is_error: bool = False) -> Dict[str, Any]:
    result = await client.call_tool(name, arguments)
    expect(bool(result.is_error), is_error)
    payload: Dict[str, Any] = result.structured_content
    return payload


def expect(actual: Any, expected: Any) -> None:
    if actual != expected:
        raise SystemExit(f"expected {expected!r}, got {actual!r}")


if __name__ == "__main__":
    asyncio.run(play("legacy", "2025-11-25"))
    asyncio.run(play("auto", "2026-07-28"))
    print("the SDK's client agrees: handshake and stateless")
