"""What both stores share: the door, the write transaction, idempotency keys, the event log.

Glossary
    resource         what an agent is granted and what owns an event log: one knowledge base, one record channel
    tool             a declaration as `tools/list` serves it: {name, description, inputSchema, annotations, ...}
    the door         `store.call(name, arguments)`: checks arguments against the tool's inputSchema, then runs it
    refusal          `ToolError.payload`: a JSON object that begins with "error", one of ERROR_CODES
    version          what an edit must name to be let through (compare-and-swap): an article's `updated_at`,
                     an item's integer `version`
    idempotency key  a name the caller gives to one edit of a resource; the same call again returns the first result,
                     replayed. The same key in another resource is another key: else it would tell what is done there,
                     and whoever uses it first would take it from all others
    event            {sequence, type, article_id | item_id, updated_at | version}: one change to one resource
    sequence         1, 2, 3, … per resource, in commit order and without gaps; an agent's whole cursor

Every write goes through `with self.write:`, the only place that issues BEGIN IMMEDIATE. It takes the write lock before
the first read, so that what an edit compares is still true when it writes. (A plain BEGIN would read first and lock
later: two agents could both find their version current.) Any error inside rolls the whole edit back.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Collection, FrozenSet, List, Optional, Tuple

from arguments import JSON, ToolError, arguments_check, from_json, not_found, shown, to_json

# Written into the file's header, where a program finds them before it touches a table. Both stores share a file.
APPLICATION_ID = 0x61677473  # "agts": agent tool stores
SCHEMA_VERSION = 3  # of the tables in all modules together; a change to any of them takes the next number

MARK = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"

SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    resource_type TEXT    NOT NULL,
    resource_id   TEXT    NOT NULL,
    sequence      INTEGER NOT NULL CHECK (sequence >= 1),
    -- Of an article: created, saved, retitled, published, unpublished. Of an item: created, updated, deleted. Spelt out
    -- with OR: for an IN of so many SQLite fills a table at each insert, which takes as long as the insert itself.
    type          TEXT    NOT NULL CHECK (
                      type = 'created' OR type = 'saved' OR type = 'retitled' OR type = 'published'
                      OR type = 'unpublished' OR type = 'updated' OR type = 'deleted'),
    subject_id    TEXT    NOT NULL,   -- the article or the item
    version       NOT NULL,           -- its version after the change: TEXT of an article, INTEGER of an item
    PRIMARY KEY (resource_type, resource_id, sequence)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS idempotency_key (
    resource_type TEXT    NOT NULL,
    resource_id   TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    fingerprint   BLOB    NOT NULL,   -- of the tool and all its other arguments
    result        TEXT    NOT NULL,   -- JSON, as first returned
    sequence      INTEGER,            -- the edit's event; NULL if it changed nothing
    PRIMARY KEY (resource_type, resource_id, key),
    FOREIGN KEY (resource_type, resource_id, sequence) REFERENCES event
) WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS event_is_never_changed BEFORE UPDATE ON event
BEGIN SELECT raise(ABORT, 'the event log is append-only'); END;

CREATE TRIGGER IF NOT EXISTS event_is_never_deleted BEFORE DELETE ON event
BEGIN SELECT raise(ABORT, 'the event log is append-only'); END;
"""

POLL_TOOL: JSON = {
    "name": "poll_resource_events",
    "description": "Resume from an event sequence for one granted channel, Note, knowledge base, record, or session.",
    "inputSchema": {
        "type": "object",
        "required": ["resource_type", "resource_id"],
        "properties": {
            "resource_type": {"type": "string", "description": "knowledge_base or record_channel"},
            "resource_id": {"type": "string"},
            "after_sequence": {"type": "integer", "minimum": 0, "default": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 100},
        },
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}


class CheckFailed(Exception):
    """An invariant that a store's `check()` found broken."""


class WrongFile(sqlite3.DatabaseError):
    """The file is another program's, or of another version of these tables. It was left as it is."""


class Transaction:
    """`with store.write:` is BEGIN IMMEDIATE … COMMIT, or ROLLBACK on any error; `with store.read:` is one snapshot.

    Raises ToolError("busy") if the lock is not had within the store's timeout.
    """

    def __init__(self, db: sqlite3.Connection, begin: str) -> None:
        self.db = db
        self.begin = begin

    def __enter__(self) -> sqlite3.Connection:
        try:
            self.db.execute(self.begin)
        except sqlite3.OperationalError as error:
            raise busy_or(error) from error
        return self.db

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        try:
            if error_type is None:
                self.db.execute("COMMIT")
        except sqlite3.OperationalError as commit_error:
            raise busy_or(commit_error) from commit_error
        finally:
            # Reached with the transaction open after an error inside the block and after a COMMIT that failed.
            # SQLite has already rolled back by itself after some errors (disk full), hence the question.
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")


class ToolStore:
    """One connection to one database, and the tools over it. Use one store per thread; processes may share a file.

    path     a file, made if it is not there, or ":memory:". Raises ValueError for "", which SQLite takes for a file of
             its own that is gone at the end; WrongFile for a database that is not these stores' own
    clock    () -> seconds since the epoch: what saves are stamped with. It may stand still or run back.
    granted  the resource ids that are reachable, kept as a frozenset; None for all of them. Raises TypeError for a str,
             whose single letters would be ids, and for anything else that is no collection of strings.
    timeout  seconds to wait for another process's write lock before ToolError("busy")
    """

    TOOLS: List[JSON] = []
    SCHEMA = ""
    resource_type = ""
    event_keys = ("subject_id", "version")  # what an event calls its subject and its version

    def __init__(
        self,
        path: str = ":memory:",
        clock: Callable[[], float] = time.time,
        granted: Optional[Collection[str]] = None,
        timeout: float = 10.0,
    ) -> None:
        self.clock = clock
        self.granted = None if granted is None else only_ids(granted)
        self.db = open_database(path, SCHEMA + self.SCHEMA, timeout)
        self.write = Transaction(self.db, "BEGIN IMMEDIATE")
        self.read = Transaction(self.db, "BEGIN")
        self._checks = {tool["name"]: arguments_check(tool["inputSchema"]) for tool in self.TOOLS}

    def close(self) -> None:
        self.db.close()

    # --- the door -----------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: JSON) -> JSON:
        """The result of the tool as JSON values. Raises ToolError and, for whatever arguments, nothing else."""
        check = self._checks.get(name) if type(name) is str else None
        if check is None:
            raise ToolError("unknown_tool", message=f"no tool is called {shown(name)}")
        check(arguments)
        try:
            result: JSON = getattr(self, name)(**arguments)
        except sqlite3.OperationalError as error:
            raise busy_or(error) from error
        return result

    # --- idempotency keys: used inside `with self.write:` ---------------------------------------------------------

    def replay(self, resource_id: str, key: str, fingerprint: bytes) -> Optional[JSON]:
        """The first result of this very call, marked `replayed`; None if the key is new to this resource.

        Raises ToolError("idempotency_key_reused") if the key belongs to a call with other arguments.
        """
        row = self.db.execute(
            """SELECT fingerprint, result FROM idempotency_key
               WHERE resource_type = ? AND resource_id = ? AND key = ?""",
            (self.resource_type, resource_id, key),
        ).fetchone()
        if row is None:
            return None
        if row[0] != fingerprint:
            raise ToolError(
                "idempotency_key_reused",
                message="this idempotency_key belongs to an edit with other arguments; use a new key for a new edit",
            )
        first: JSON = from_json(row[1])
        first["replayed"] = True
        return first

    def record_key(self, resource_id: str, key: str, fingerprint: bytes, result: JSON, sequence: Optional[int]) -> None:
        self.db.execute(
            """INSERT INTO idempotency_key (resource_type, resource_id, key, fingerprint, result, sequence)
               VALUES (?, ?, ?, ?, ?, ?)""",
            (self.resource_type, resource_id, key, fingerprint, to_json(result), sequence),
        )

    # --- the event log ------------------------------------------------------------------------------------------

    def append_event(self, resource_id: str, event_type: str, subject_id: str, version: Any) -> int:
        """The new event's sequence. Used inside `with self.write:`, so no later sequence can commit before it."""
        sequence = self.latest_sequence(resource_id) + 1
        self.db.execute(
            """INSERT INTO event (resource_type, resource_id, sequence, type, subject_id, version)
               VALUES (?, ?, ?, ?, ?, ?)""",
            (self.resource_type, resource_id, sequence, event_type, subject_id, version),
        )
        return sequence

    def latest_sequence(self, resource_id: str) -> int:
        latest: int = self.db.execute(
            "SELECT coalesce(max(sequence), 0) FROM event WHERE resource_type = ? AND resource_id = ?",
            (self.resource_type, resource_id),
        ).fetchone()[0]
        return latest

    def poll_resource_events(
        self, resource_type: str, resource_id: str, after_sequence: int = 0, limit: int = 100
    ) -> JSON:
        """{events, next_after_sequence, latest_sequence, has_more}: the events after a sequence, oldest first.

        Hand `next_after_sequence` back as `after_sequence`. `latest_sequence` is the log's end: where an agent that
        holds nothing yet may start. Raises ToolError: not_found, sequence_beyond_log.
        """
        if resource_type != self.resource_type:
            raise not_found(resource_type, resource_id)
        self.require_resource(resource_id)
        rows = self.db.execute(
            """SELECT sequence, type, subject_id, version FROM event
               WHERE resource_type = ? AND resource_id = ? AND sequence > ?
               ORDER BY sequence LIMIT ?""",
            (resource_type, resource_id, after_sequence, limit),
        ).fetchall()
        latest = self.latest_sequence(resource_id)
        if after_sequence > latest:
            raise ToolError(
                "sequence_beyond_log",
                message=f"this log ends at sequence {latest}; start again from 0 or from a sequence it gave",
                latest_sequence=latest,
            )
        subject, version = self.event_keys
        next_after = rows[-1][0] if rows else after_sequence
        return {
            "events": [{"sequence": row[0], "type": row[1], subject: row[2], version: row[3]} for row in rows],
            "next_after_sequence": next_after,
            "latest_sequence": latest,
            "has_more": next_after < latest,
        }

    # --- what a concrete store adds -------------------------------------------------------------------------------

    def require_resource(self, resource_id: str) -> Any:
        """The resource's row. Raises ToolError("not_found") if it is unknown or not granted."""
        raise NotImplementedError

    def require_granted(self, resource_id: str) -> None:
        if self.granted is not None and resource_id not in self.granted:
            raise not_found(self.resource_type, resource_id)

    def invariants(self) -> List[Tuple[str, str]]:
        """[(what must hold, a query whose rows are the violations)]. Stores add their own."""
        return [
            (
                "sequences of a resource are 1, 2, 3, … without a gap",
                """SELECT resource_type, resource_id, count(*), max(sequence) FROM event
                   GROUP BY resource_type, resource_id HAVING count(*) <> max(sequence)""",
            ),
            (
                "every recorded key that names an event names one that exists",
                """SELECT key FROM idempotency_key AS k WHERE sequence IS NOT NULL AND NOT EXISTS (
                       SELECT 1 FROM event AS e WHERE e.resource_type = k.resource_type
                       AND e.resource_id = k.resource_id AND e.sequence = k.sequence)""",
            ),
            (
                "no event answers for two recorded keys",
                """SELECT resource_type, resource_id, sequence FROM idempotency_key WHERE sequence IS NOT NULL
                   GROUP BY resource_type, resource_id, sequence HAVING count(*) > 1""",
            ),
            ("foreign keys hold", "SELECT * FROM pragma_foreign_key_check"),
            ("the file is sound", "SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
        ]

    def check(self) -> int:
        """How many invariants were checked. Raises CheckFailed with the violations if any does not hold."""
        invariants = self.invariants()
        broken = []
        for rule, violations in invariants:
            rows = self.db.execute(violations).fetchmany(5)
            if rows:
                broken.append(f"{rule}: violated by {rows}")
        if broken:
            raise CheckFailed("; ".join(broken))
        return len(invariants)


# --- helpers ---------------------------------------------------------------------------------------------------------


def only_ids(granted: Collection[str]) -> FrozenSet[str]:
    """Raises TypeError: the text "kb-internal" would grant each of its letters and, by `in`, "kb" and "internal"."""
    ids = frozenset(granted)
    if isinstance(granted, str) or not all(isinstance(resource_id, str) for resource_id in ids):
        raise TypeError(f"granted must be a collection of resource ids, such as ['kb'], got {granted!r}")
    return ids


def fingerprint(*fields: str) -> bytes:
    """A hash that differs when any field does. A NUL, which no argument contains, ends each: ("ab", "c") is not
    ("a", "bc")."""
    return hashlib.sha256("\0".join([*fields, ""]).encode()).digest()


def later_time(now: float, previous: str = "") -> str:
    """`now` (seconds since the epoch) in canonical form, or one microsecond after `previous` if that is later."""
    stamp = datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="microseconds")[:26] + "Z"
    if stamp > previous:
        return stamp
    return (datetime.fromisoformat(previous[:26]) + timedelta(microseconds=1)).isoformat(timespec="microseconds") + "Z"


def busy_or(error: sqlite3.DatabaseError) -> Exception:
    """ToolError("busy") if the error says that a lock was not had in time; any other error as it is."""
    if "database is locked" not in str(error):
        return error
    return ToolError("busy", message="another process is writing; nothing was written, send the same call again")


def open_database(path: str, schema: str, timeout: float) -> sqlite3.Connection:
    """A connection in autocommit mode, with the tables made. See ToolStore for the arguments.

    Raises ValueError, ToolError("busy"), WrongFile, and sqlite3.DatabaseError for a file that is no database.

    WAL lets readers go on beside the one writer. synchronous = NORMAL keeps every acknowledged edit when a process
    is killed; an edit of the last moments may be lost, whole, when the machine loses power (FULL costs four times as
    much per edit).
    """
    if not path:
        raise ValueError('path must be the name of a file or ":memory:", got ""')
    db = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    deadline = time.monotonic() + timeout
    try:
        mark = "" if is_ours(db) else MARK  # asked before the first write, which the switch to WAL is
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                # SQLite does not wait for the lock that this switch needs: processes that open a new file collide.
                if "database is locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA recursive_triggers = ON")  # so that REPLACE, too, meets the trigger against deleting
        db.executescript(f"BEGIN IMMEDIATE; {schema} {mark} COMMIT;")
    except sqlite3.DatabaseError as error:
        db.close()
        raise busy_or(error) from error
    return db


def is_ours(db: sqlite3.Connection) -> bool:
    """Whether the database is these stores' own; False if it is empty, and so theirs to make. Raises WrongFile."""
    with Transaction(db, "BEGIN"):  # one snapshot: another process may just be making the tables
        found = tuple(db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        is_empty = db.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    if found == (APPLICATION_ID, SCHEMA_VERSION):
        return True
    if found == (0, 0) and is_empty:
        return False
    if found[0] == APPLICATION_ID:
        raise WrongFile(f"the file has tables of version {found[1]}, and this program knows version {SCHEMA_VERSION}")
    raise WrongFile("the file is another program's database")
