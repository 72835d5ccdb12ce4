"""The record-channel tools: list, read, edit and poll, as an agent gets them.

Glossary
    channel     a table of items with a schema that people change; what an agent is granted
    schema      [field, …] as people see it in the Schema tab; field_schema.py says what a field is
    item        {"item_id", "version", "created_at", "updated_at", "values"}; an edit names the version it has read
    preview     one text of at most 120 characters: "status: new | ticket: BUG-1 | title: Login fails on"
    before_id   the cursor: the item_id that the page before ended with
    event       {"sequence", "type", "item_id", "version"}; type is created, updated or deleted

The schema comes with every page, because `values` is declared as an object and nothing more: keys and options differ
from channel to channel and change when people change them. The page is where an agent cannot miss them.

Source: the second post. Results, previews and every rule of validation are ours, as theirs were.
"""

from __future__ import annotations

from typing import Optional

from arguments import IDENTIFIER, INT64_MAX, JSON, ToolError, from_json, not_found, shown
from field_types import canonical_json
from record_channels import RecordChannels
from tool_store import POLL_TOOL, fingerprint, later_time

PAGE = 50  # items at most, and unless fewer are asked for


class RecordStore(RecordChannels):
    """Record channels with the agent's tools. See RecordChannels for the arguments, and ToolStore for `call`."""

    TOOLS = [
        {
            "name": "list_record_items",
            "description": "List the schema and a bounded page of item previews from one granted record channel. "
            "Use read_record_item for the complete values.",
            "inputSchema": {
                "type": "object",
                "required": ["record_channel_id"],
                "properties": {
                    "record_channel_id": {"type": "string"},
                    "before_id": {"type": "string"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": PAGE},
                },
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "read_record_item",
            "description": "Read one item by ID from a granted record channel and return its current version.",
            "inputSchema": {
                "type": "object",
                "required": ["record_channel_id", "item_id"],
                "properties": {"record_channel_id": {"type": "string"}, "item_id": {"type": "string"}},
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "edit_record_item",
            "description": "Update validated fields in one record item. Supply the version from read_record_item; "
            "concurrent changes are rejected.",
            "inputSchema": {
                "type": "object",
                "required": ["record_channel_id", "item_id", "values", "expected_version", "idempotency_key"],
                "properties": {
                    "record_channel_id": {"type": "string"},
                    "item_id": {"type": "string"},
                    "values": {"type": "object"},
                    "expected_version": {"type": "integer", "minimum": 1},
                    "idempotency_key": IDENTIFIER,
                },
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": False, "destructiveHint": True},
            "securitySchemes": [{"type": "oauth2", "scopes": ["osfoundry:write"]}],
        },
        POLL_TOOL,
    ]

    # --- the tools ----------------------------------------------------------------------------------------------

    def edit_record_item(
        self, record_channel_id: str, item_id: str, values: JSON, expected_version: int, idempotency_key: str
    ) -> JSON:
        """{record_channel_id, item_id, version, updated_at, replayed}: the version after the edit.

        All of `values` is written or none of it; the item's other values stay. With no values nothing changes, not
        even the version. A conflict does not say what the version is now: the agent has to read what changed.
        Raises ToolError: not_found, idempotency_key_reused, version_conflict, validation_failed; invalid_arguments for
        values that would make the item longer than MAX_ITEM.
        """
        self.require_granted(record_channel_id)
        sent = canonical_json(values)
        asked = fingerprint("edit_record_item", record_channel_id, item_id, sent, str(expected_version))
        with self.write:
            first = self.replay(record_channel_id, idempotency_key, asked)
            if first is not None:
                return first
            item = self.find_item(record_channel_id, item_id)
            if item.version != expected_version:
                raise ToolError(
                    "version_conflict",
                    message=f"{shown(item_id)} is not at version {expected_version}; read it again before you edit it",
                )
            self.validate(record_channel_id, item_id, item.schema, values)
            version, updated_at, sequence = item.version, item.updated_at, None
            if values:
                version, updated_at = version + 1, later_time(self.clock(), updated_at)
                self.write_values(record_channel_id, item, values, version, updated_at)
                sequence = self.append_event(record_channel_id, "updated", item_id, version)
            result = {
                "record_channel_id": record_channel_id,
                "item_id": item_id,
                "version": version,
                "updated_at": updated_at,
                "replayed": False,
            }
            self.record_key(record_channel_id, idempotency_key, asked, result, sequence)
            return result

    def list_record_items(self, record_channel_id: str, before_id: Optional[str] = None, limit: int = PAGE) -> JSON:
        """{record_channel_id, schema: [field, …], items: [{item_id, version, created_at, updated_at, preview}, …],
        next_before_id}: newest first. Hand `next_before_id` back as `before_id`; null at the end.

        Raises ToolError("not_found"), for a before_id that this channel never had too.
        """
        self.require_granted(record_channel_id)
        before = INT64_MAX if before_id is None else self.position_of(record_channel_id, before_id)
        # One statement is one snapshot: the page's items and the schema that they are shown under belong together.
        rows = self.db.execute(
            """SELECT channel.schema_version, item.item_id, item.version, item.created_at, item.updated_at, item.preview
               FROM record_channel AS channel LEFT JOIN record_item AS item
                   ON item.record_channel_id = channel.record_channel_id AND NOT item.deleted AND item.position < ?
               WHERE channel.record_channel_id = ?
               ORDER BY item.position DESC LIMIT ?""",
            (before, record_channel_id, limit + 1),
        ).fetchall()
        if not rows:
            raise not_found(self.resource_type, record_channel_id)
        items = [
            {"item_id": item_id, "version": version, "created_at": created, "updated_at": updated, "preview": preview}
            for _, item_id, version, created, updated, preview in rows[:limit]
            if item_id is not None
        ]
        return {
            "record_channel_id": record_channel_id,
            "schema": from_json(self.schema(record_channel_id, rows[0][0]).page_text),
            "items": items,
            "next_before_id": items[-1]["item_id"] if len(rows) > limit else None,
        }

    def read_record_item(self, record_channel_id: str, item_id: str) -> JSON:
        """{record_channel_id, item_id, version, created_at, updated_at, values: {every key of the schema: value}}.

        Empty is null; formulas are computed as of now. Raises ToolError("not_found").
        """
        self.require_granted(record_channel_id)
        item = self.find_item(record_channel_id, item_id)
        return {
            "record_channel_id": record_channel_id,
            "item_id": item_id,
            "version": item.version,
            "created_at": item.created_at,
            "updated_at": item.updated_at,
            "values": item.schema.complete(item.values, item.created_at, item.updated_at, self.today),
        }
