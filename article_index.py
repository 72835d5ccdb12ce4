"""The index that a search reads: it follows the event log, as an agent does, and catches up at the next search.

Glossary
    word      letters and digits in a row, folded by `index_text`, the same for an article as for a query. In a script
              without spaces it is a whole run of letters: nothing here knows where a Japanese or Thai word ends
    number    an article's integer key; those of one knowledge base lie in one range, oldest first
    row       an article has two in the index: 2 * number has its title's words, 2 * number + 1 has all its words. So
              one look for a word tells which articles have it and which of them in the title
    followed  the sequence up to which the index has followed a knowledge base's event log
    lag       how many events it has yet to follow; 0 means that it agrees with the articles

Why so: keeping a full-text index in step inside every edit would make up most of what an edit costs (`make bench`).
An edit writes its event anyway, and a search that finds the index behind brings it up to date in a transaction of its
own. So an edit pays nothing for search, and a search still answers from the current text.
"""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from typing import Dict, List, Optional, Tuple

from tool_store import CheckFailed

# What one transaction follows at most, so that others can write in between: so many events, and of so many characters
# (or one article, which may have more).
CATCH_UP = 500
CATCH_UP_TEXT = 500_000
NUMBERS = 2**32  # article numbers kept for each knowledge base
WORD = re.compile(r"[^\W_]+")
DROPPED = frozenset(("Mn", "Mc", "Me", "Cf"))  # categories: marks, and invisible formatting characters
PHRASE = "\ufdfa"  # stands for 18 characters, more than twice as many as any other

INDEX_SCHEMA = """
-- Published articles as last indexed, folded by `index_text`, two rows each (see the glossary). detail = none keeps
-- which words a row has, but not where or how often; columnsize = 0 does not keep how many, which only bm25 would ask.
CREATE VIRTUAL TABLE IF NOT EXISTS article_index USING fts5 (text, tokenize = ascii, detail = none, columnsize = 0);
"""


class ArticleIndex:
    """Over the tables `article`, `knowledge_base` and `event` of a KnowledgeBaseStore's database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def lag(self, knowledge_base_id: str) -> int:
        followed, latest = self.db.execute(
            """SELECT indexed_sequence, (
                   SELECT coalesce(max(sequence), 0) FROM event
                   WHERE resource_type = 'knowledge_base' AND resource_id = knowledge_base_id)
               FROM knowledge_base WHERE knowledge_base_id = ?""",
            (knowledge_base_id,),
        ).fetchone()
        lag: int = latest - followed
        return lag

    def catch_up(self, knowledge_base_id: str) -> None:
        """Follows the log by one event at least, by CATCH_UP of them and CATCH_UP_TEXT characters at most.

        Used inside `with store.write:`. Does nothing if there is no lag.
        """
        events = self.db.execute(
            """SELECT sequence, subject_id FROM event
               WHERE resource_type = 'knowledge_base' AND resource_id = :base
               AND sequence > (SELECT indexed_sequence FROM knowledge_base WHERE knowledge_base_id = :base)
               ORDER BY sequence LIMIT :events""",
            {"base": knowledge_base_id, "events": CATCH_UP},
        ).fetchall()
        if not events:
            return
        changed: Dict[str, Optional[Tuple[int, int, str, str]]] = {}
        followed = characters = 0
        for sequence, article_id in events:
            if article_id not in changed:  # an article that was saved many times is indexed once, as it is now
                article = self.db.execute(
                    """SELECT number, published, title, content FROM article
                       WHERE knowledge_base_id = ? AND article_id = ?""",
                    (knowledge_base_id, article_id),
                ).fetchone()
                characters += len(article[3]) if article else 0  # an event about nobody is for `check` to report
                if changed and characters > CATCH_UP_TEXT:
                    break
                changed[article_id] = article
            followed = sequence
        # In the order of their numbers, each taken out and put in at once: whenever numbers step back, FTS5 begins
        # another segment, and a search has to visit every segment.
        for number, published, title, content in sorted(filter(None, changed.values())):
            if published:
                self.db.executemany(
                    "INSERT OR REPLACE INTO article_index (rowid, text) VALUES (?, ?)",
                    index_rows(number, title, content),
                )
            else:
                self.db.execute("DELETE FROM article_index WHERE rowid IN (?, ?)", (2 * number, 2 * number + 1))
        # Each catch-up leaves a segment. Merging up to 16 pages of them here keeps searches quick and stays small; FTS5
        # by itself waits until it can merge a lot at once.
        self.db.execute("INSERT INTO article_index (article_index, rank) VALUES ('merge', 16)")
        self.db.execute(
            "UPDATE knowledge_base SET indexed_sequence = ? WHERE knowledge_base_id = ?",
            (followed, knowledge_base_id),
        )

    def best(self, base: int, words: List[str], limit: int) -> List[Tuple[str, str, str, str]]:
        """[(article_id, title, content, updated_at)]: most words found, then most in the title, then the oldest.

        `base` is the knowledge base's number. A query of 200 characters has far fewer than 1,000 words, so 1,000 points
        for a word found anywhere outweigh one point for each in the title; one sum is less work than two counts.
        """
        return self.db.execute(
            """
            WITH hit (number, points) AS (
                SELECT i.rowid / 2, CASE i.rowid % 2 WHEN 0 THEN 1 ELSE 1000 END
                FROM json_each(:phrases) AS phrase JOIN article_index AS i
                    ON i.article_index MATCH phrase.value AND i.rowid BETWEEN :first AND :last
            ),
            best AS (
                SELECT number, sum(points) AS score FROM hit GROUP BY number ORDER BY score DESC, number LIMIT :limit
            )
            SELECT article_id, title, content, updated_at FROM best JOIN article USING (number)
            ORDER BY score DESC, number
            """,
            {
                "phrases": json.dumps([f'"{word}"' for word in words]),
                "first": 2 * base * NUMBERS,
                "last": 2 * (base + 1) * NUMBERS - 1,
                "limit": limit,
            },
        ).fetchall()

    def check(self) -> None:
        """Raises CheckFailed unless the index holds the published articles as they are, but for those in the lag.

        That FTS5 finds what it holds is FTS5's affair, as a b-tree is SQLite's: from SQLite 3.44 on, the integrity
        check that ToolStore.check runs anyway looks into both.
        """
        lagging = self.db.execute(
            """SELECT a.number FROM knowledge_base AS b JOIN event AS e JOIN article AS a
                   ON e.resource_type = 'knowledge_base' AND e.resource_id = b.knowledge_base_id
                   AND e.sequence > b.indexed_sequence
                   AND a.knowledge_base_id = b.knowledge_base_id AND a.article_id = e.subject_id"""
        )
        waiting = {number for (number,) in lagging}
        held = dict(self.db.execute("SELECT rowid, text FROM article_index"))
        for number, title, content in self.db.execute("SELECT number, title, content FROM article WHERE published"):
            expected = index_rows(number, title, content)
            if [(row, held.pop(row, None)) for row, _ in expected] != expected and number not in waiting:
                raise CheckFailed(f"the index does not hold article number {number} as it is")
        unpublished = sorted({row // 2 for row in held} - waiting)
        if unpublished:
            raise CheckFailed(f"the index holds what is not published: numbers {unpublished[:5]}")


def index_rows(number: int, title: str, content: str) -> List[Tuple[int, str]]:
    folded = index_text(title)
    return [(2 * number, folded), (2 * number + 1, f"{folded} {index_text(content)}")]


def index_text(text: str) -> str:
    """A text whose ascii words are all its words, folded: "Straße, RÉSUMÉ_2" becomes "strasse resume 2".

    Case, accents and compatibility forms are folded, and with the accents the vowel signs of scripts that write them as
    marks. What no reader sees, a soft hyphen or a zero-width space, does not split a word. A text in ASCII is left as
    it is: the index's tokenizer lowers it and splits it in the same way.
    """
    if text.isascii():
        return text
    # Marks go before too: normalize sorts a row of them in quadratic time, which is hours for a long one. PHRASE stays
    # as it is: a text of nothing else would become eighteen times as long.
    parts = without_dropped(text.casefold()).split(PHRASE)
    decomposed = PHRASE.join([unicodedata.normalize("NFKD", part) for part in parts])
    return " ".join(WORD.findall(without_dropped(decomposed).casefold()))


def without_dropped(text: str) -> str:
    return "".join([character for character in text if unicodedata.category(character) not in DROPPED])


def query_words(query: str) -> List[str]:
    """The folded words of a query, each once. All but letters and digits separates: no full-text syntax is left."""
    return list(dict.fromkeys(WORD.findall(index_text(query).casefold())))
