"""Record channels in one database: what people do to channels and items, and the rules that every write obeys.

Glossary
    channel   a table of items with a schema that people change
    field     {"key", "label", "type", "is_required", "is_unique", "config"}; see field_schema.py
    item      values under an item_id, with a version that counts 1, 2, 3, …
    values    {key: value}; what a write sends: the keys that it changes, and null to clear one
    position  an item's place in the order of creation; pages run from high to low
    claim     an item's right to one value of a unique field, for as long as it has that value

Nothing here is a tool: an agent that could create, delete or change a schema could widen the field that validation
guards (the post's last advice). The tools are in record_store.py.

Validation is in the transaction that writes: between the two, the schema could change or a unique value be taken.
"""

from __future__ import annotations

import sqlite3
import time
from datetime import date, datetime, timezone
from typing import Any, Callable, Collection, Dict, List, NamedTuple, Optional, Tuple

from arguments import IDENTIFIER, JSON, ToolError, arguments_check, from_json, not_found, shown, to_json
from field_schema import Schema
from field_types import is_empty, unique_form
from record_check import INVARIANTS, broken_items
from tool_store import CheckFailed, ToolStore, later_time

MAX_ITEM = 2_000_000  # characters of JSON, of all the values that one item has gathered, removed fields' too

REFUSAL_LEVELS = ("terse", "field", "values", "labels")

# What people's side takes, checked as an agent's arguments are.
check_people = arguments_check(
    {
        "required": [],
        "properties": {
            "record_channel_id": IDENTIFIER,
            "item_id": IDENTIFIER,
            "values": {"type": "object"},
        },
    }
)


class Item(NamedTuple):
    """An item that is not deleted, as its row has it, and its channel's current schema."""

    item_id: str
    version: int
    created_at: str
    updated_at: str
    text: str  # its values as JSON
    checked_by: int  # the schema_version that its values were checked against, except for …
    earlier_schemas: str  # … these: JSON {key: schema_version}
    schema: Schema  # the channel's current one

    @property
    def values(self) -> JSON:
        """Made when asked for: most edits that are refused never need them."""
        values: JSON = from_json(self.text)
        return values


class RecordChannels(ToolStore):
    """See ToolStore for path, clock, granted and timeout.

    granted  limits the tools and what a relation may point to; the methods of people's side have no such limit
    refusal  how much a failed validation says: terse, field, values or labels. Raises ValueError for any other.
    """

    resource_type = "record_channel"
    event_keys = ("item_id", "version")

    SCHEMA = """
    CREATE TABLE IF NOT EXISTS record_schema (     -- every version there ever was: what each value was checked against
        record_channel_id TEXT    NOT NULL,
        schema_version    INTEGER NOT NULL CHECK (schema_version >= 1),
        fields            TEXT    NOT NULL,        -- JSON [field, …]
        PRIMARY KEY (record_channel_id, schema_version)
    ) WITHOUT ROWID;

    CREATE TABLE IF NOT EXISTS record_channel (
        record_channel_id TEXT    PRIMARY KEY,
        schema_version    INTEGER NOT NULL,        -- the current one
        FOREIGN KEY (record_channel_id, schema_version) REFERENCES record_schema
    ) WITHOUT ROWID;

    CREATE TABLE IF NOT EXISTS record_item (
        record_channel_id TEXT    NOT NULL REFERENCES record_channel,
        item_id           TEXT    NOT NULL,
        position          INTEGER NOT NULL CHECK (position >= 1),    -- 1, 2, 3, … in the order of creation
        version           INTEGER NOT NULL CHECK (version >= 1),
        schema_version    INTEGER NOT NULL,        -- what its values were checked against, except for …
        earlier_schemas   TEXT    NOT NULL,        -- … these: JSON {key: schema_version} of values left from before
        created_at        TEXT    NOT NULL,
        updated_at        TEXT    NOT NULL,
        item_values       TEXT    NOT NULL,        -- JSON {key: value}; an absent key is as empty as null
        preview           TEXT    NOT NULL CHECK (length(preview) <= 120),
        deleted           INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
        PRIMARY KEY (record_channel_id, item_id),
        UNIQUE (record_channel_id, position),
        CHECK (NOT deleted OR (item_values = '{}' AND earlier_schemas = '{}' AND preview = '')),
        FOREIGN KEY (record_channel_id, schema_version) REFERENCES record_schema
    );

    -- A deleted item stays as a row without values, so that a cursor that names it keeps its place. Pages use this
    -- index, which leaves deleted items out: a page costs the same at any depth and after any number of deletions.
    CREATE INDEX IF NOT EXISTS record_item_page ON record_item (record_channel_id, position) WHERE NOT deleted;

    CREATE TABLE IF NOT EXISTS record_unique (     -- one row for each value of an is_unique field: the key is the rule
        record_channel_id TEXT NOT NULL,
        key               TEXT NOT NULL,
        value             TEXT NOT NULL,           -- canonical JSON
        item_id           TEXT NOT NULL,
        PRIMARY KEY (record_channel_id, key, value),
        UNIQUE (record_channel_id, item_id, key),
        FOREIGN KEY (record_channel_id, item_id) REFERENCES record_item
    ) WITHOUT ROWID;
    """

    def __init__(
        self,
        path: str = ":memory:",
        clock: Callable[[], float] = time.time,
        refusal: str = "labels",
        granted: Optional[Collection[str]] = None,
        timeout: float = 10.0,
    ) -> None:
        if refusal not in REFUSAL_LEVELS:
            raise ValueError(f"refusal must be one of {', '.join(REFUSAL_LEVELS)}")
        super().__init__(path, clock, granted, timeout)
        self.refusal = refusal
        self._schemas: Dict[Tuple[str, int], Schema] = {}

    # --- people's side --------------------------------------------------------------------------------------------

    def create_channel(self, record_channel_id: str, fields: List[JSON]) -> None:
        """Raises ToolError("invalid_arguments") for an id that is taken or fields that are no schema."""
        check_people({"record_channel_id": record_channel_id})
        schema = Schema(fields, version=1)
        with self.write:
            try:
                self.save_schema(record_channel_id, schema)
                self.db.execute("INSERT INTO record_channel VALUES (?, 1)", (record_channel_id,))
            except sqlite3.IntegrityError as error:
                raise unfit("record_channel_id", f"{shown(record_channel_id)} is taken") from error

    def change_schema(self, record_channel_id: str, fields: List[JSON]) -> None:
        """Items stay as they are, whether they fit or not; what is written from now on must fit. Writes no event (our
        choice: no item changed, and the next page brings the new schema).

        Takes time in proportion to the channel's items, whose previews and unique values are worked out anew.
        Raises ToolError: not_found; invalid_arguments for fields that are no schema, or that make a field unique of
        which two items have the same value.
        """
        check_people({"record_channel_id": record_channel_id})
        Schema(fields, version=1)  # refuses unfit fields before the lock is taken
        with self.write:
            schema = Schema(fields, self.current_schema(record_channel_id).version + 1)
            self.save_schema(record_channel_id, schema)
            self.db.execute(
                "UPDATE record_channel SET schema_version = ? WHERE record_channel_id = ?",
                (schema.version, record_channel_id),
            )
            self.db.execute("DELETE FROM record_unique WHERE record_channel_id = ?", (record_channel_id,))
            for (item_id,) in self.db.execute(
                "SELECT item_id FROM record_item WHERE record_channel_id = ? AND NOT deleted", (record_channel_id,)
            ).fetchall():
                self.fit_to(schema, record_channel_id, item_id)

    def create_item(self, record_channel_id: str, values: JSON, item_id: Optional[str] = None) -> JSON:
        """{item_id, version}. An item that is not given an id is named after its place in the order: "item-000001".

        Raises ToolError: not_found, validation_failed; invalid_arguments for values longer than MAX_ITEM, and for an
        item_id that is taken, by a deleted item too, since cursors and events go on naming that one.
        """
        named = {} if item_id is None else {"item_id": item_id}
        check_people({"record_channel_id": record_channel_id, "values": values, **named})
        with self.write:
            schema = self.current_schema(record_channel_id)
            position, new_id = self.place_of_new_item(record_channel_id, item_id)
            # A required field that was not sent is as empty as one that was sent as null.
            self.validate(record_channel_id, new_id, schema, {**dict.fromkeys(schema.required), **values})
            now = later_time(self.clock())
            self.db.execute(
                """INSERT INTO record_item (record_channel_id, item_id, position, version, schema_version,
                       earlier_schemas, created_at, updated_at, item_values, preview)
                   VALUES (?, ?, ?, 1, ?, '{}', ?, ?, ?, ?)""",
                (record_channel_id, new_id, position, schema.version, now, now,
                 item_text(values), schema.preview(values)),
            )  # fmt: skip
            self.claim_unique(record_channel_id, new_id, schema, values)
            self.append_event(record_channel_id, "created", new_id, 1)
            return {"item_id": new_id, "version": 1}

    def update_item(self, record_channel_id: str, item_id: str, values: JSON) -> JSON:
        """{item_id, version}: a person's edit in the grid. It names no version; the last one wins.

        Raises ToolError: not_found, validation_failed, invalid_arguments.
        """
        check_people({"record_channel_id": record_channel_id, "item_id": item_id, "values": values})
        with self.write:
            item = self.find_item(record_channel_id, item_id)
            self.validate(record_channel_id, item_id, item.schema, values)
            version = item.version
            if values:
                version += 1
                updated_at = later_time(self.clock(), item.updated_at)
                self.write_values(record_channel_id, item, values, version, updated_at)
                self.append_event(record_channel_id, "updated", item_id, version)
            return {"item_id": item_id, "version": version}

    def delete_item(self, record_channel_id: str, item_id: str) -> None:
        """Its values are gone; its place in the order, its id and its events stay. Raises ToolError: not_found."""
        check_people({"record_channel_id": record_channel_id, "item_id": item_id})
        with self.write:
            item = self.find_item(record_channel_id, item_id)
            self.db.execute(
                "DELETE FROM record_unique WHERE record_channel_id = ? AND item_id = ?", (record_channel_id, item_id)
            )
            self.db.execute(
                """UPDATE record_item SET deleted = 1, version = ?, updated_at = ?,
                       item_values = '{}', earlier_schemas = '{}', preview = ''
                   WHERE record_channel_id = ? AND item_id = ?""",
                (item.version + 1, later_time(self.clock(), item.updated_at), record_channel_id, item_id),
            )
            self.append_event(record_channel_id, "deleted", item_id, item.version + 1)

    def fit_to(self, schema: Schema, record_channel_id: str, item_id: str) -> None:
        """Works an item's preview and claims out anew. The new schema is handed on rather than looked up, because
        `self.schema` would go on knowing it after a rollback."""
        row = self.db.execute(
            "SELECT item_values FROM record_item WHERE record_channel_id = ? AND item_id = ?",
            (record_channel_id, item_id),
        ).fetchone()
        values = from_json(row[0])
        self.db.execute(
            "UPDATE record_item SET preview = ? WHERE record_channel_id = ? AND item_id = ?",
            (schema.preview(values), record_channel_id, item_id),
        )
        self.claim_unique(record_channel_id, item_id, schema, values)

    def save_schema(self, record_channel_id: str, schema: Schema) -> None:
        self.db.execute(
            "INSERT INTO record_schema (record_channel_id, schema_version, fields) VALUES (?, ?, ?)",
            (record_channel_id, schema.version, schema.text),
        )

    # --- validation and writing: used inside `with self.write:` -----------------------------------------------------

    def validate(self, record_channel_id: str, item_id: str, schema: Schema, values: JSON) -> None:
        """Raises ToolError("validation_failed") with every field that fails, in the detail that `refusal` says."""
        problems = schema.problems(values)
        for key in schema.looked_up:
            if values.get(key) is not None and key not in problems:
                problem = self.clash(record_channel_id, item_id, schema, key, values[key])
                if problem:
                    problems[key] = problem
        if problems:
            raise schema.refusal(problems, self.refusal)

    def clash(self, record_channel_id: str, item_id: str, schema: Schema, key: str, value: Any) -> Optional[str]:
        """What other items have against a value that is fine in itself; None if nothing."""
        related = schema.related.get(key)
        if related is not None and not self.item_is_there(related, value):
            return f"must be the id of an item in {related}, got {shown(value)}"
        if key in schema.unique and not is_empty(value):
            owner = self.db.execute(
                "SELECT item_id FROM record_unique WHERE record_channel_id = ? AND key = ? AND value = ?",
                (record_channel_id, key, unique_form(schema.unique[key], value)),
            ).fetchone()
            if owner is not None and owner[0] != item_id:
                return f"must be unique, and another item has {shown(value)}"
        return None

    def write_values(self, record_channel_id: str, item: Item, values: JSON, version: int, updated_at: str) -> None:
        """Merges values into the item's own, and keeps preview and unique values in step.

        Raises ToolError("invalid_arguments") if they would make the item longer than MAX_ITEM.
        """
        schema = item.schema
        merged = {**item.values, **values}
        self.db.execute(
            """UPDATE record_item SET version = ?, updated_at = ?, item_values = ?, preview = ?
               WHERE record_channel_id = ? AND item_id = ?""",
            (version, updated_at, item_text(merged), schema.preview(merged), record_channel_id, item.item_id),
        )
        if item.checked_by != schema.version or item.earlier_schemas != "{}":
            self.db.execute(
                """UPDATE record_item SET schema_version = ?, earlier_schemas = ?
                   WHERE record_channel_id = ? AND item_id = ?""",
                (schema.version, earlier_schemas(item, merged, values), record_channel_id, item.item_id),
            )
        self.claim_unique(record_channel_id, item.item_id, schema, values)

    def claim_unique(self, record_channel_id: str, item_id: str, schema: Schema, values: JSON) -> None:
        """Moves the item's claims to its new values of unique fields; an empty value claims nothing.

        Raises ToolError("invalid_arguments") if another item holds one: only a schema change gets that far, since
        `validate` has refused the rest.
        """
        for key in schema.unique.keys() & values.keys():
            self.db.execute(
                "DELETE FROM record_unique WHERE record_channel_id = ? AND item_id = ? AND key = ?",
                (record_channel_id, item_id, key),
            )
            if is_empty(values[key]):
                continue
            try:
                self.db.execute(
                    "INSERT INTO record_unique (record_channel_id, key, value, item_id) VALUES (?, ?, ?, ?)",
                    (record_channel_id, key, unique_form(schema.unique[key], values[key]), item_id),
                )
            except sqlite3.IntegrityError as error:
                raise unfit("fields", f"make {key} unique, but two items have {shown(values[key])}") from error

    # --- looking up -------------------------------------------------------------------------------------------------

    def require_resource(self, resource_id: str) -> Schema:
        self.require_granted(resource_id)
        return self.current_schema(resource_id)

    def current_schema(self, record_channel_id: str) -> Schema:
        row = self.db.execute(
            "SELECT schema_version FROM record_channel WHERE record_channel_id = ?", (record_channel_id,)
        ).fetchone()
        if row is None:
            raise not_found(self.resource_type, record_channel_id)
        return self.schema(record_channel_id, row[0])

    def schema(self, record_channel_id: str, version: int) -> Schema:
        """A schema as it was saved. A saved version never changes, so it is prepared once for each process."""
        known = self._schemas.get((record_channel_id, version))
        if known is None:
            fields = self.db.execute(
                "SELECT fields FROM record_schema WHERE record_channel_id = ? AND schema_version = ?",
                (record_channel_id, version),
            ).fetchone()[0]
            known = self._schemas[record_channel_id, version] = Schema(from_json(fields), version)
        return known

    def find_item(self, record_channel_id: str, item_id: str) -> Item:
        """Raises ToolError("not_found") if the channel is unknown, or the item is unknown or deleted."""
        row = self.db.execute(
            """SELECT item.version, item.created_at, item.updated_at, item.item_values, item.schema_version,
                   item.earlier_schemas, channel.schema_version
               FROM record_item AS item JOIN record_channel AS channel USING (record_channel_id)
               WHERE record_channel_id = ? AND item_id = ? AND NOT deleted""",
            (record_channel_id, item_id),
        ).fetchone()
        if row is None:
            raise self.missing(record_channel_id, item_id)
        version, created_at, updated_at, text, checked_by, earlier, current = row
        schema = self.schema(record_channel_id, current)
        return Item(item_id, version, created_at, updated_at, text, checked_by, earlier, schema)

    def missing(self, record_channel_id: str, item_id: str) -> ToolError:
        """The not_found of what is missing: the channel, or else the item."""
        self.current_schema(record_channel_id)
        return not_found("item", item_id)

    def position_of(self, record_channel_id: str, item_id: str) -> int:
        """Where a page that ended with this item ended, deleted since or not. Raises ToolError("not_found")."""
        row = self.db.execute(
            "SELECT position FROM record_item WHERE record_channel_id = ? AND item_id = ?", (record_channel_id, item_id)
        ).fetchone()
        if row is None:
            raise self.missing(record_channel_id, item_id)
        position: int = row[0]
        return position

    def place_of_new_item(self, record_channel_id: str, item_id: Optional[str]) -> Tuple[int, str]:
        """(position, item_id): after all items there ever were. Raises ToolError("invalid_arguments") if taken."""
        position: int = self.db.execute(
            "SELECT coalesce(max(position), 0) + 1 FROM record_item WHERE record_channel_id = ?", (record_channel_id,)
        ).fetchone()[0]
        new_id = item_id or f"item-{position:06d}"
        while self.db.execute(
            "SELECT 1 FROM record_item WHERE record_channel_id = ? AND item_id = ?", (record_channel_id, new_id)
        ).fetchone():
            if item_id is not None:
                raise unfit("item_id", f"{shown(item_id)} is taken")
            position += 1  # an importer has used the name of this place
            new_id = f"item-{position:06d}"
        return position, new_id

    def item_is_there(self, record_channel_id: str, item_id: str) -> bool:
        """Whether a relation may point to it. In a channel that is not granted nothing is there, or an agent could find
        out what such a channel holds by writing relations to it."""
        if self.granted is not None and record_channel_id not in self.granted:
            return False
        return (
            self.db.execute(
                "SELECT 1 FROM record_item WHERE record_channel_id = ? AND item_id = ? AND NOT deleted",
                (record_channel_id, item_id),
            ).fetchone()
            is not None
        )

    def today(self) -> date:
        return datetime.fromtimestamp(self.clock(), timezone.utc).date()

    # --- the store checks itself --------------------------------------------------------------------------------------

    def invariants(self) -> List[Tuple[str, str]]:
        return [*super().invariants(), *INVARIANTS]

    def check(self) -> int:
        """Adds to ToolStore.check what takes Python to tell, over one snapshot while others go on writing."""
        with self.read as db:
            checked = super().check()
            broken = list(broken_items(db, self.schema))
        if broken:
            raise CheckFailed("; ".join(broken[:5]))
        return checked + 3


# --- helpers ---------------------------------------------------------------------------------------------------------


def unfit(name: str, problem: str) -> ToolError:
    """The refusal that a misfit in one argument gets at the door too."""
    return ToolError("invalid_arguments", arguments=[{"name": name, "message": f"{name} {problem}"}])


def item_text(values: JSON) -> str:
    """What an item keeps. One call is bounded at the door; this bounds what many calls add up to."""
    text = to_json(values)
    if len(text) > MAX_ITEM:
        raise unfit("values", f"would make the item {len(text)} characters of JSON, more than {MAX_ITEM}")
    return text


def earlier_schemas(item: Item, merged: JSON, sent: JSON) -> str:
    """JSON {key: schema_version} of the merged values that an edit leaves as an earlier schema let them in."""
    earlier = from_json(item.earlier_schemas)
    kept = {key: earlier.get(key, item.checked_by) for key in merged if key not in sent}
    return to_json({key: version for key, version in kept.items() if version != item.schema.version})
