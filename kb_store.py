"""The knowledge-base tools: search, read, edit and poll over articles that people keep changing.

Glossary
    article    {article_id, title, content}, published or not. An agent gets to see published ones only; it learns of
               others from the event log, which names them.
    version    an article's `updated_at`, a date-time such as 2026-11-08T09:00:00.000000Z. Every save has a later one
               than the save before, even when the clock stands still.
    citation   {knowledge_base_id, article_id, updated_at}: where an answer came from and which version of it. It can
               be checked later, and its `updated_at` is what an edit takes as `expected_version`.
    event      {sequence, type, article_id, updated_at}: one save, of a draft too, since an agent must learn that what
               it cited is gone and when it comes back. The log names drafts by id and time, and never shows their text.
               type: created, saved, retitled, published or unpublished
    index      what search reads. It follows the event log as any agent does, from a sequence of its own, and catches
               up at the next search. So an edit pays nothing for it, and a search still answers from the current text.

Source: the first post ("La ricostruzione"). Shapes of results are ours, as theirs were.
"""

from __future__ import annotations

import time
from typing import Any, List, Optional, Tuple

from arguments import IDENTIFIER, JSON, ToolError, arguments_check, canonical_time, not_found, shown
from article_index import INDEX_SCHEMA, NUMBERS, ArticleIndex, query_words
from tool_store import POLL_TOOL, ToolStore, fingerprint, later_time

TITLE = {"type": "string", "minLength": 1, "maxLength": 200}
CONTENT = {"type": "string"}
# What people's methods take, checked as an agent's arguments are.
check_people = arguments_check(
    {
        "required": [],
        "properties": {
            "knowledge_base_id": IDENTIFIER,
            "article_id": IDENTIFIER,
            "title": TITLE,
            "content": CONTENT,
            "published": {"type": "boolean"},
        },
    }
)

SNIPPET = 120  # characters of an article that a search result shows

# A search that has much to catch up with gives way to others now and then. SQLite's lock has no queue: whoever waits
# asks for it every 0.1 seconds, and would nearly always miss the moment between two transactions.
TURN = 0.5  # seconds
PAUSE = 0.15  # seconds


class KnowledgeBaseStore(ToolStore):
    """Knowledge bases in one database. See ToolStore for the arguments and for `call`, the agents' door."""

    resource_type = "knowledge_base"
    event_keys = ("article_id", "updated_at")

    SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS knowledge_base (
        knowledge_base_id TEXT    PRIMARY KEY,
        number            INTEGER NOT NULL UNIQUE,
        indexed_sequence  INTEGER NOT NULL DEFAULT 0     -- how far the index has followed the event log
    ) WITHOUT ROWID;

    CREATE TABLE IF NOT EXISTS article (
        number            INTEGER PRIMARY KEY,           -- knowledge_base.number * 2^32 + 1, 2, 3, … : oldest first
        knowledge_base_id TEXT    NOT NULL REFERENCES knowledge_base,
        article_id        TEXT    NOT NULL,
        title             TEXT    NOT NULL,
        content           TEXT    NOT NULL,
        published         INTEGER NOT NULL CHECK (published IN (0, 1)),
        updated_at        TEXT    NOT NULL CHECK (length(updated_at) = 27),
        UNIQUE (knowledge_base_id, article_id)
    );
    {INDEX_SCHEMA}"""

    TOOLS = [
        {
            "name": "search_knowledge_base",
            "description": "Search current published articles in one granted knowledge base. "
            "Results cite the article ID and updated time; this is a live database read.",
            "inputSchema": {
                "type": "object",
                "required": ["knowledge_base_id", "query"],
                "properties": {
                    "knowledge_base_id": {"type": "string"},
                    "query": {"type": "string", "minLength": 2, "maxLength": 200},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 5},
                },
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "read_knowledge_article",
            "description": "Read one current published article by ID from a granted knowledge base "
            "and return a stable citation.",
            "inputSchema": {
                "type": "object",
                "required": ["knowledge_base_id", "article_id"],
                "properties": {"knowledge_base_id": {"type": "string"}, "article_id": {"type": "string"}},
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "edit_knowledge_article",
            "description": "Replace article content and optionally its title. "
            "Supply the version from read_knowledge_article; concurrent changes are rejected.",
            "inputSchema": {
                "type": "object",
                "required": ["knowledge_base_id", "article_id", "content", "expected_version", "idempotency_key"],
                "properties": {
                    "knowledge_base_id": {"type": "string"},
                    "article_id": {"type": "string"},
                    "title": TITLE,
                    "content": CONTENT,
                    "expected_version": {"type": "string", "format": "date-time"},
                    "idempotency_key": IDENTIFIER,
                },
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
        },
        POLL_TOOL,
    ]

    @property
    def index(self) -> ArticleIndex:
        return ArticleIndex(self.db)

    # --- the agent's tools --------------------------------------------------------------------------------------------

    def edit_knowledge_article(
        self,
        knowledge_base_id: str,
        article_id: str,
        content: str,
        expected_version: str,
        idempotency_key: str,
        title: Optional[str] = None,
    ) -> JSON:
        """{citation, replayed}: the whole content replaced, and the title if one is given, or nothing at all.

        Raises ToolError: not_found (also when no longer published), version_conflict, idempotency_key_reused.
        """
        self.require_granted(knowledge_base_id)
        given = [knowledge_base_id, article_id, content, expected_version]
        request = fingerprint("edit_knowledge_article", *given, *([] if title is None else [title]))
        with self.write as db:
            replay = self.replay(knowledge_base_id, idempotency_key, request)
            if replay is not None:
                return replay
            article = db.execute(
                """SELECT number, title, updated_at FROM article
                   WHERE knowledge_base_id = ? AND article_id = ? AND published""",
                (knowledge_base_id, article_id),
            ).fetchone()
            if article is None:
                raise self.missing(knowledge_base_id, article_id)
            number, old_title, old_version = article
            if expected_version != old_version and canonical_time(expected_version) != old_version:
                raise ToolError(
                    "version_conflict",
                    message="the article has changed since expected_version; read it again, "
                    "reapply your change to what is there now, and send it with the new version and a new key",
                )
            updated_at = later_time(self.clock(), old_version)
            new_title = old_title if title is None else title
            db.execute(
                "UPDATE article SET title = ?, content = ?, updated_at = ? WHERE number = ?",
                (new_title, content, updated_at, number),
            )
            event_type = "saved" if new_title == old_title else "retitled"
            sequence = self.append_event(knowledge_base_id, event_type, article_id, updated_at)
            result = {"citation": citation(knowledge_base_id, article_id, updated_at), "replayed": False}
            self.record_key(knowledge_base_id, idempotency_key, request, result, sequence)
        return result

    def read_knowledge_article(self, knowledge_base_id: str, article_id: str) -> JSON:
        """{citation, title, content} of a published article. Raises ToolError: not_found."""
        self.require_granted(knowledge_base_id)
        article = self.db.execute(
            """SELECT title, content, updated_at FROM article
               WHERE knowledge_base_id = ? AND article_id = ? AND published""",
            (knowledge_base_id, article_id),
        ).fetchone()
        if article is None:
            raise self.missing(knowledge_base_id, article_id)
        title, content, updated_at = article
        return {"citation": citation(knowledge_base_id, article_id, updated_at), "title": title, "content": content}

    def search_knowledge_base(self, knowledge_base_id: str, query: str, limit: int = 5) -> JSON:
        """{results: [{citation, title, snippet}, …]}, best first. Raises ToolError: not_found, busy.

        Best is: most of the query's words found, then most of them in the title, then the oldest article. Our choice,
        which the published figures fit: bm25 would reorder results whenever an article elsewhere is saved. Words match
        whole, case and accents folded; all other visible characters only separate words. A script without spaces is
        matched by whole runs of letters only, from one space or full stop to the next.
        """
        base = self.require_resource(knowledge_base_id)
        with self.read:
            if not self.index.lag(knowledge_base_id):
                return self.results(knowledge_base_id, base, query, limit)
        turn_ends = time.monotonic() + TURN
        while True:
            with self.write:
                self.index.catch_up(knowledge_base_id)
                if not self.index.lag(knowledge_base_id):
                    return self.results(knowledge_base_id, base, query, limit)
            if time.monotonic() > turn_ends:
                time.sleep(PAUSE)
                turn_ends = time.monotonic() + TURN

    def results(self, knowledge_base_id: str, base: int, query: str, limit: int) -> JSON:
        words = query_words(query)
        longest_first = sorted(words, key=len, reverse=True)
        return {
            "results": [
                {
                    "citation": citation(knowledge_base_id, article_id, updated_at),
                    "title": title,
                    "snippet": snippet(content, longest_first),
                }
                for article_id, title, content, updated_at in self.index.best(base, words, limit)
            ]
        }

    # --- what people do, not tools: every save is one transaction and one event ---------------------------------------

    def create_knowledge_base(self, knowledge_base_id: str) -> None:
        """Makes an empty one; does nothing if it is there. Raises ToolError: invalid_arguments, busy."""
        check_people({"knowledge_base_id": knowledge_base_id})
        with self.write as db:
            db.execute(
                """INSERT OR IGNORE INTO knowledge_base (knowledge_base_id, number)
                   SELECT ?, coalesce(max(number), 0) + 1 FROM knowledge_base""",
                (knowledge_base_id,),
            )

    def create_article(
        self,
        knowledge_base_id: str,
        title: str,
        content: str,
        article_id: Optional[str] = None,
        published: bool = True,
    ) -> JSON:
        """The new article's citation. An import may bring its own `article_id`; without one the store makes it.

        Raises ToolError: not_found, invalid_arguments (also for an id that is taken), busy.
        """
        given = {"knowledge_base_id": knowledge_base_id, "title": title, "content": content, "published": published}
        check_people(given if article_id is None else {**given, "article_id": article_id})
        with self.write as db:
            first = self.knowledge_base_number(knowledge_base_id) * NUMBERS
            number: int = db.execute(
                "SELECT coalesce(max(number), ?) + 1 FROM article WHERE number BETWEEN ? AND ?",
                (first, first, first + NUMBERS - 1),
            ).fetchone()[0]
            identifier = f"a{number - first:06d}" if article_id is None else article_id
            while self.is_taken(knowledge_base_id, identifier):
                if article_id is not None:
                    raise ToolError("invalid_arguments", message=f"article_id {shown(identifier)} is taken")
                number += 1  # an import has used the name of this number
                identifier = f"a{number - first:06d}"
            updated_at = later_time(self.clock())
            db.execute(
                """INSERT INTO article (number, knowledge_base_id, article_id, title, content, published, updated_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?)""",
                (number, knowledge_base_id, identifier, title, content, int(published), updated_at),
            )
            self.append_event(knowledge_base_id, "created", identifier, updated_at)
        return citation(knowledge_base_id, identifier, updated_at)

    def save_article(self, knowledge_base_id: str, article_id: str, content: str, title: Optional[str] = None) -> JSON:
        """The article's new citation after a person saved it, published or draft. Event: saved, or retitled."""
        changes = {"content": content} if title is None else {"content": content, "title": title}
        return self.save(knowledge_base_id, article_id, **changes)

    def retitle_article(self, knowledge_base_id: str, article_id: str, title: str) -> JSON:
        """The article's new citation. Event: retitled."""
        return self.save(knowledge_base_id, article_id, title=title)

    def publish_article(self, knowledge_base_id: str, article_id: str) -> JSON:
        """The article's new citation. Event: published."""
        return self.save(knowledge_base_id, article_id, published=True)

    def unpublish_article(self, knowledge_base_id: str, article_id: str) -> JSON:
        """The draft's new citation. Event: unpublished. Agents find the article gone from the next call on."""
        return self.save(knowledge_base_id, article_id, published=False)

    def save(self, knowledge_base_id: str, article_id: str, **changes: Any) -> JSON:
        """One save of the changes (title, content, published), the rest kept.

        Each save has a new version and an event, even if nothing differs.

        Raises ToolError: not_found, invalid_arguments, busy.
        """
        check_people({"knowledge_base_id": knowledge_base_id, "article_id": article_id, **changes})
        with self.write as db:
            article = db.execute(
                """SELECT number, title, content, published, updated_at FROM article
                   WHERE knowledge_base_id = ? AND article_id = ?""",
                (knowledge_base_id, article_id),
            ).fetchone()
            if article is None:
                raise self.missing(knowledge_base_id, article_id)
            number, old_title, old_content, old_published, old_version = article
            updated_at = later_time(self.clock(), old_version)
            title = changes.get("title", old_title)
            published = changes.get("published", old_published)
            db.execute(
                "UPDATE article SET title = ?, content = ?, published = ?, updated_at = ? WHERE number = ?",
                (title, changes.get("content", old_content), int(published), updated_at, number),
            )
            if "published" in changes:
                event_type = "published" if published else "unpublished"
            else:
                event_type = "saved" if title == old_title else "retitled"
            self.append_event(knowledge_base_id, event_type, article_id, updated_at)
        return citation(knowledge_base_id, article_id, updated_at)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def require_resource(self, resource_id: str) -> int:
        self.require_granted(resource_id)
        return self.knowledge_base_number(resource_id)

    def is_taken(self, knowledge_base_id: str, article_id: str) -> bool:
        return (
            self.db.execute(
                "SELECT 1 FROM article WHERE knowledge_base_id = ? AND article_id = ?", (knowledge_base_id, article_id)
            ).fetchone()
            is not None
        )

    def knowledge_base_number(self, knowledge_base_id: str) -> int:
        row = self.db.execute(
            "SELECT number FROM knowledge_base WHERE knowledge_base_id = ?", (knowledge_base_id,)
        ).fetchone()
        if row is None:
            raise not_found("knowledge_base", knowledge_base_id)
        number: int = row[0]
        return number

    def missing(self, knowledge_base_id: str, article_id: str) -> ToolError:
        """The not_found of what is missing: the knowledge base, or else the article."""
        self.knowledge_base_number(knowledge_base_id)
        return not_found("article", article_id)

    # --- invariants ---------------------------------------------------------------------------------------------------

    def invariants(self) -> List[Tuple[str, str]]:
        return [
            *super().invariants(),
            (
                "an article's versions strictly increase along the log",
                """SELECT resource_id, sequence, subject_id, version FROM (
                       SELECT *, lag(version) OVER (
                           PARTITION BY resource_id, subject_id ORDER BY sequence) AS version_before
                       FROM event WHERE resource_type = 'knowledge_base')
                   WHERE version_before >= version""",
            ),
            (
                "an article's version is that of its last event",
                """WITH last (knowledge_base_id, article_id, sequence, version) AS (
                       SELECT resource_id, subject_id, max(sequence), version FROM event
                       WHERE resource_type = 'knowledge_base' GROUP BY resource_id, subject_id)
                   SELECT knowledge_base_id, article_id, updated_at, version
                   FROM article LEFT JOIN last USING (knowledge_base_id, article_id) WHERE updated_at IS NOT version""",
            ),
            (
                "every knowledge-base event is about an article that exists",
                """SELECT resource_id, sequence, subject_id FROM event WHERE resource_type = 'knowledge_base'
                   AND NOT EXISTS (SELECT 1 FROM article
                       WHERE knowledge_base_id = resource_id AND article_id = subject_id)""",
            ),
            (
                "every recorded edit's result is its event",
                """SELECT k.resource_id, k.key
                   FROM idempotency_key AS k LEFT JOIN event AS e USING (resource_type, resource_id, sequence)
                   WHERE k.resource_type = 'knowledge_base' AND (
                       e.sequence IS NULL OR NOT json_valid(k.result)
                       OR json_extract(k.result, '$.replayed') IS NOT 0
                       OR json_extract(k.result, '$.citation.knowledge_base_id') IS NOT k.resource_id
                       OR json_extract(k.result, '$.citation.updated_at') IS NOT e.version
                       OR json_extract(k.result, '$.citation.article_id') IS NOT e.subject_id)""",
            ),
            (
                "articles are numbered in their knowledge base's range, where a search looks for them",
                f"""SELECT a.knowledge_base_id, article_id, a.number, b.number
                    FROM article AS a JOIN knowledge_base AS b USING (knowledge_base_id)
                    WHERE a.number / {NUMBERS} IS NOT b.number""",
            ),
            (
                "the index has followed no further than the log goes",
                """SELECT knowledge_base_id, indexed_sequence FROM knowledge_base
                   WHERE indexed_sequence NOT BETWEEN 0 AND (
                       SELECT coalesce(max(sequence), 0) FROM event
                       WHERE resource_type = 'knowledge_base' AND resource_id = knowledge_base_id)""",
            ),
        ]

    def check(self) -> int:
        """See ToolStore.check; the index is checked too, in one snapshot while others go on writing."""
        with self.read:
            self.index.check()
            return super().check() + 1


# --- helpers ----------------------------------------------------------------------------------------------------------


def citation(knowledge_base_id: str, article_id: str, updated_at: str) -> JSON:
    return {"knowledge_base_id": knowledge_base_id, "article_id": article_id, "updated_at": updated_at}


def snippet(content: str, words: List[str]) -> str:
    """SNIPPET characters from the first of the words that stands in the content as written, else from its beginning."""
    lowered = content.replace("İ", "i").lower()  # the one letter whose lower case is longer than the letter
    for word in words:
        start = lowered.find(word.lower())
        if start >= 0:
            return content[start : start + SNIPPET]
    return content[:SNIPPET]
