"""The tools' work as SQL written by hand, one function for each: the floor that `bench.py` holds the stores against.

Glossary
    floor  the least that a call can cost: the same statements over the same tables, and the same result. Left out is
           what makes a store safe: no argument is checked, no key is compared with other arguments, no grant is looked
           at, no clock that runs back is allowed for, no value is validated. `fingerprint` is apart, for replays
    bare   of a check: it says whether a value fits, and nothing about why not

Nothing but the benchmark and its test uses this: it shows what the stores' safety costs, and is no example to follow.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from datetime import date, datetime, timezone
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from arguments import JSON
from bug_tracker import field, options
from field_types import is_email, is_phone, is_url

PREVIEW_ORDER = "status owner severity area ticket title description points due reporter".split()  # the bug tracker's
KEYS = "ticket title description status owner severity points area due reporter".split()

# A plain FTS5 index over the store's own articles: full detail, and no second copy of the texts.
FTS5 = """
CREATE VIRTUAL TABLE plain_index USING fts5 (title, content, content = article, content_rowid = number);
INSERT INTO plain_index (plain_index) VALUES ('rebuild');
"""


class Conflict(Exception):
    pass


def stamp(now: float) -> str:
    return datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="microseconds")[:26] + "Z"


def fingerprint(arguments: Any) -> bytes:
    """What a replay is recognized by, in the way that first comes to mind."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).digest()


# --- knowledge base ---------------------------------------------------------------------------------------------------


def edit_article(
    db: sqlite3.Connection, base: str, article_id: str, content: str, expected: str, key: str,
    *, now: float, with_fts5: bool = False,
) -> JSON:  # fmt: skip
    """`with_fts5` keeps plain_index in step inside the edit."""
    db.execute("BEGIN IMMEDIATE")
    try:
        known = db.execute(
            """SELECT result FROM idempotency_key
               WHERE resource_type = 'knowledge_base' AND resource_id = ? AND key = ?""",
            (base, key),
        ).fetchone()
        if known is not None:
            db.execute("ROLLBACK")
            return {**json.loads(known[0]), "replayed": True}
        number, title, version = db.execute(
            """SELECT number, title, updated_at FROM article
               WHERE knowledge_base_id = ? AND article_id = ? AND published""",
            (base, article_id),
        ).fetchone()
        if version != expected:
            raise Conflict
        updated_at = stamp(now)
        if with_fts5:
            db.execute(
                """INSERT INTO plain_index (plain_index, rowid, title, content)
                   SELECT 'delete', number, title, content FROM article WHERE number = ?""",
                (number,),
            )
            db.execute("INSERT INTO plain_index (rowid, title, content) VALUES (?, ?, ?)", (number, title, content))
        db.execute("UPDATE article SET content = ?, updated_at = ? WHERE number = ?", (content, updated_at, number))
        sequence = 1 + db.execute(
            "SELECT max(sequence) FROM event WHERE resource_type = 'knowledge_base' AND resource_id = ?", (base,)
        ).fetchone()[0]  # fmt: skip
        db.execute(
            "INSERT INTO event VALUES ('knowledge_base', ?, ?, 'saved', ?, ?)", (base, sequence, article_id, updated_at)
        )
        cited = {"knowledge_base_id": base, "article_id": article_id, "updated_at": updated_at}
        result: JSON = {"citation": cited, "replayed": False}
        db.execute(
            "INSERT INTO idempotency_key VALUES ('knowledge_base', ?, ?, '', ?, ?)",
            (base, key, json.dumps(result), sequence),
        )
        db.execute("COMMIT")
        return result
    except BaseException:
        db.execute("ROLLBACK")
        raise


def read_article(db: sqlite3.Connection, base: str, article_id: str) -> JSON:
    title, content, updated_at = db.execute(
        """SELECT title, content, updated_at FROM article
           WHERE knowledge_base_id = ? AND article_id = ? AND published""",
        (base, article_id),
    ).fetchone()
    cited = {"knowledge_base_id": base, "article_id": article_id, "updated_at": updated_at}
    return {"citation": cited, "title": title, "content": content}


def search_fts5(db: sqlite3.Connection, base: str, limit: int, words: Sequence[str]) -> JSON:
    """Any of the words, best first by bm25: what FTS5 does by itself."""
    rows = db.execute(
        """SELECT article_id, article.title, article.content, updated_at
           FROM plain_index JOIN article ON article.number = plain_index.rowid
           WHERE plain_index MATCH ? ORDER BY bm25(plain_index), plain_index.rowid LIMIT ?""",
        (" OR ".join(words), limit),
    )
    return hits(base, rows.fetchall(), words)


def search_scan(db: sqlite3.Connection, base: str, limit: int, words: Sequence[str]) -> JSON:
    """Without an index: every text is looked through, once for each word."""
    patterns = [f"%{word}%" for word in words]
    found = " + ".join("(title LIKE ? OR content LIKE ?)" for _ in words)
    rows = db.execute(
        f"""SELECT article_id, title, content, updated_at FROM (
                SELECT *, {found} AS score FROM article WHERE knowledge_base_id = ? AND published)
            WHERE score > 0 ORDER BY score DESC, number LIMIT ?""",
        (*[pattern for pattern in patterns for _ in (1, 2)], base, limit),
    )
    return hits(base, rows.fetchall(), words)


def hits(base: str, rows: Sequence[Tuple[str, str, str, str]], words: Sequence[str]) -> JSON:
    """With a snippet from the longest word that is found, as the tool has."""
    longest_first = sorted(words, key=len, reverse=True)
    results = []
    for article_id, title, content, updated_at in rows:
        folded = content.lower()
        start = next((at for at in map(folded.find, longest_first) if at >= 0), 0)
        cited = {"knowledge_base_id": base, "article_id": article_id, "updated_at": updated_at}
        results.append({"citation": cited, "title": title, "snippet": content[start : start + 120]})
    return {"results": results}


def poll(db: sqlite3.Connection, base: str, after: int, limit: int = 100) -> JSON:
    rows = db.execute(
        """SELECT sequence, type, subject_id, version FROM event
           WHERE resource_type = 'knowledge_base' AND resource_id = ? AND sequence > ? ORDER BY sequence LIMIT ?""",
        (base, after, limit),
    ).fetchall()
    latest = db.execute(
        "SELECT max(sequence) FROM event WHERE resource_type = 'knowledge_base' AND resource_id = ?", (base,)
    ).fetchone()[0]
    following = rows[-1][0] if rows else after
    events = [{"sequence": row[0], "type": row[1], "article_id": row[2], "updated_at": row[3]} for row in rows]
    return {
        "events": events,
        "next_after_sequence": following,
        "latest_sequence": latest,
        "has_more": following < latest,
    }


# --- records ----------------------------------------------------------------------------------------------------------


def list_items(
    db: sqlite3.Connection, channel: str, schema: str, before_id: Optional[str] = None, limit: int = 50
) -> JSON:
    """`schema` is the JSON text of the page's schema, which the caller has prepared."""
    before = 2**63 - 1
    if before_id is not None:
        before = db.execute(
            "SELECT position FROM record_item WHERE record_channel_id = ? AND item_id = ?", (channel, before_id)
        ).fetchone()[0]
    rows = db.execute(
        """SELECT item_id, version, created_at, updated_at, preview FROM record_item
           WHERE record_channel_id = ? AND NOT deleted AND position < ? ORDER BY position DESC LIMIT ?""",
        (channel, before, limit + 1),
    ).fetchall()
    return page(channel, schema, rows, limit)


def list_items_by_offset(db: sqlite3.Connection, channel: str, schema: str, offset: int, limit: int = 50) -> JSON:
    rows = db.execute(
        """SELECT item_id, version, created_at, updated_at, preview FROM record_item
           WHERE record_channel_id = ? AND NOT deleted ORDER BY position DESC LIMIT ? OFFSET ?""",
        (channel, limit + 1, offset),
    ).fetchall()
    return page(channel, schema, rows, limit)


def page(channel: str, schema: str, rows: List[Tuple[str, int, str, str, str]], limit: int) -> JSON:
    items = [
        {"item_id": row[0], "version": row[1], "created_at": row[2], "updated_at": row[3], "preview": row[4]}
        for row in rows[:limit]
    ]
    following = items[-1]["item_id"] if len(rows) > limit else None
    return {"record_channel_id": channel, "schema": json.loads(schema), "items": items, "next_before_id": following}


def read_item(db: sqlite3.Connection, channel: str, now: float, item_id: str) -> JSON:
    version, created_at, updated_at, values = db.execute(
        """SELECT version, created_at, updated_at, item_values FROM record_item
           WHERE record_channel_id = ? AND item_id = ? AND NOT deleted""",
        (channel, item_id),
    ).fetchone()
    whole = {**dict.fromkeys(KEYS), **json.loads(values)}
    today = datetime.fromtimestamp(now, timezone.utc).date()
    whole["age_days"] = (today - date.fromisoformat(created_at[:10])).days
    return {
        "record_channel_id": channel,
        "item_id": item_id,
        "version": version,
        "created_at": created_at,
        "updated_at": updated_at,
        "values": whole,
    }


def edit_item(
    db: sqlite3.Connection, channel: str, item_id: str, values: JSON, expected: int, key: str, now: float
) -> JSON:
    """Values are merged as JSON, and the preview is made anew."""
    db.execute("BEGIN IMMEDIATE")
    try:
        known = db.execute(
            """SELECT result FROM idempotency_key
               WHERE resource_type = 'record_channel' AND resource_id = ? AND key = ?""",
            (channel, key),
        ).fetchone()
        if known is not None:
            db.execute("ROLLBACK")
            return {**json.loads(known[0]), "replayed": True}
        version, text = db.execute(
            """SELECT version, item_values FROM record_item
               WHERE record_channel_id = ? AND item_id = ? AND NOT deleted""",
            (channel, item_id),
        ).fetchone()
        if version != expected:
            raise Conflict
        merged, updated_at = {**json.loads(text), **values}, stamp(now)
        preview = " | ".join([f"{name}: {merged[name]}" for name in PREVIEW_ORDER if name in merged])
        preview = preview if len(preview) <= 120 else preview[:119].rstrip() + "…"
        db.execute(
            """UPDATE record_item SET version = ?, updated_at = ?, item_values = ?, preview = ?
               WHERE record_channel_id = ? AND item_id = ?""",
            (version + 1, updated_at, json.dumps(merged, ensure_ascii=False), preview, channel, item_id),
        )
        sequence = 1 + db.execute(
            "SELECT max(sequence) FROM event WHERE resource_type = 'record_channel' AND resource_id = ?", (channel,)
        ).fetchone()[0]  # fmt: skip
        db.execute(
            "INSERT INTO event VALUES ('record_channel', ?, ?, 'updated', ?, ?)",
            (channel, sequence, item_id, version + 1),
        )
        result = {
            "record_channel_id": channel,
            "item_id": item_id,
            "version": version + 1,
            "updated_at": updated_at,
            "replayed": False,
        }
        db.execute(
            "INSERT INTO idempotency_key VALUES ('record_channel', ?, ?, '', ?, ?)",
            (channel, key, json.dumps(result), sequence),
        )
        db.execute("COMMIT")
        return result
    except BaseException:
        db.execute("ROLLBACK")
        raise


# --- a value of each type ---------------------------------------------------------------------------------------------

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII).fullmatch


def is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 200


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and value is not True and value is not False and 0 <= value <= 100


def is_date(value: Any) -> bool:
    return isinstance(value, str) and _DATE(value) is not None and date.fromisoformat(value) is not None


def is_option(value: Any) -> bool:
    return isinstance(value, str) and value in OPTIONS


OPTIONS = frozenset(("one", "two", "three"))
BARE_CHECKS: Dict[str, Callable[[Any], bool]] = {
    "text": is_text,
    "number": is_number,
    "date": is_date,
    "boolean": lambda value: value is True or value is False,
    "email": lambda value: isinstance(value, str) and is_email(value),
    "phone": lambda value: isinstance(value, str) and is_phone(value),
    "url": lambda value: isinstance(value, str) and is_url(value),
    "select": is_option,
    "multi_select": lambda value: (
        isinstance(value, list) and len(set(value)) == len(value) and all(map(is_option, value))
    ),
    "currency": is_number,
    "percentage": is_number,
    "rating": lambda value: isinstance(value, int) and value is not True and 1 <= value <= 5,
    "relation": lambda value: isinstance(value, str),
    "file": lambda value: isinstance(value, dict) and is_text(value["name"]) and is_url(value["url"]),
    "json": lambda value: True,
    "formula": lambda value: False,
}


# A field of each type that can be written, called after its type, and a value for it.
CHOICES = options(*[(value, value.title(), "gray") for value in sorted(OPTIONS)])
CONFIGS: Dict[str, JSON] = {
    "text": {"max_length": 200},
    "number": {"min": 0, "max": 100},
    "select": {"options": CHOICES},
    "multi_select": {"options": CHOICES},
    "currency": {"min": 0, "max": 100, "currency": "EUR"},
    "relation": {"record_channel_id": "bugs"},
}
VALUES: JSON = {
    "text": "Login fails after the window was resized",
    "number": 13,
    "date": "2026-11-13",
    "boolean": True,
    "email": "aiko@example.com",
    "phone": "+39 06 1234 5678",
    "url": "https://example.com/reports/17",
    "select": "two",
    "multi_select": ["one", "three"],
    "currency": 12.5,
    "percentage": 80,
    "rating": 4,
    "relation": "item-000017",
    "file": {"name": "log.txt", "url": "https://example.com/log.txt"},
    "json": {"any": ["value"]},
}
ALL_TYPES = [field(kind, kind, kind, **CONFIGS.get(kind, {})) for kind in VALUES]


def all_fit(values: JSON) -> bool:
    """Values under their type's name."""
    for key, value in values.items():  # noqa: SIM110 - a loop is what prepared closures are called from
        if not BARE_CHECKS[key](value):
            return False
    return True
