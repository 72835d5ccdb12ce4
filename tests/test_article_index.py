"""Ranking, held against plain Python over the texts, and an index that follows whatever people do."""

from __future__ import annotations

import random
import unicodedata
import unittest
from typing import Any, Dict, List, NamedTuple, Optional, Set
from unittest import mock

import article_index
from article_index import index_text, query_words
from tests.kb_case import KnowledgeBaseCase

WORDS = (
    "refund REFUND order Order card café CAFÉ cafe\u0301 Straße STRASSE naïve élan Ωμέγα ΩΜΈΓΑΣ ωμεγας İstanbul "
    "istanbul ISTANBUL Привет привет ЁЛКА ёлка елка 返金 注文 返金注文 Ａｂｃ abc ﬁne fine x² x2 ٣ 3 III Ⅲ Ꭺ ꭺ a b "
    "and OR not near title content 42 4.2 snake_case e-mail don't"
).split()
SEPARATORS = (*'   \n\t…"(*_/\u3000。', ", ", "; ", ": ", " - ", " — ", ") ")


def plain_words(text: str) -> Set[str]:
    """The oracle's own way to split and fold: character by character, without a regular expression."""
    folded = "".join(mark if mark == "\ufdfa" else unicodedata.normalize("NFKD", mark) for mark in text.casefold())
    folded = "".join(mark for mark in folded if unicodedata.category(mark) not in ("Mn", "Mc", "Me", "Cf")).casefold()
    return set("".join(mark if mark.isalnum() else " " for mark in folded).split())


class Article(NamedTuple):
    title: str
    content: str
    published: bool


def plain_search(articles: Dict[str, Article], query: str, limit: int) -> List[str]:
    """The oracle: most words, then most in the title, then the oldest. `articles` is in the order of creation."""
    words = plain_words(query)
    ranked = []
    for age, (identifier, article) in enumerate(articles.items()):
        title = words & plain_words(article.title)
        anywhere = words & (plain_words(article.title) | plain_words(article.content))
        if article.published and anywhere:
            ranked.append((-len(anywhere), -len(title), age, identifier))
    return [identifier for *_, identifier in sorted(ranked)[:limit]]


class AgainstTheOracle(KnowledgeBaseCase):
    """A random base, random changes to it, random queries; after each the store and the oracle must agree."""

    def setUp(self) -> None:
        super().setUp()
        self.articles = {"a": Article("Refunds", "How to refund an order.", True)}
        self.random = random.Random(0)

    def text(self, low: int, high: int) -> str:
        """At least one character, at most 200 for a title's sake."""
        parts = []
        for _ in range(self.random.randint(low, high)):
            parts += [self.random.choice(WORDS), self.random.choice(SEPARATORS)]
        return "".join(parts)[:200] or "-"

    def change(self, base: str = "kb") -> None:
        """One random thing that people or an agent do, to the store and to the oracle's articles alike."""
        store, draw = self.store, self.random
        identifier = draw.choice(list(self.articles))
        title, content, published = self.articles[identifier]
        act = draw.randrange(6)
        if act == 0:
            title, content, published = self.text(1, 4), self.text(0, 9), draw.random() < 0.8
            identifier = store.create_article(base, title, content, published=published)["article_id"]
        elif act == 1:
            content = self.text(0, 9)
            store.save_article(base, identifier, content)
        elif act == 2:
            title = self.text(1, 4)
            store.retitle_article(base, identifier, title)
        elif act == 3:
            published = False
            store.unpublish_article(base, identifier)
        elif act == 4:
            published = True
            store.publish_article(base, identifier)
        elif published:
            title, content = self.text(1, 4), self.text(0, 9)
            self.edit(content, self.version(identifier), article_id=identifier, title=title)
        self.articles[identifier] = Article(title, content, published)

    def agree(self, query: str, limit: int) -> None:
        expected = plain_search(self.articles, query, limit)
        self.assertEqual(self.found(query, limit=limit), expected, (query, self.articles))

    def query(self) -> str:
        return self.text(1, 5) + "  "[: self.random.randint(1, 2)]

    def test_ranking_is_most_words_then_title_then_oldest(self) -> None:
        for _ in range(150):
            self.change()
        for _ in range(300):
            self.agree(self.query(), self.random.choice((1, 5, 20)))

    def test_a_search_answers_from_the_current_text_after_any_change(self) -> None:
        for _ in range(150):
            for _ in range(self.random.randint(1, 3)):
                self.change()
            self.agree(self.query(), 20)

    def test_a_search_answers_from_the_current_text_after_many_batches(self) -> None:
        for batch in (1, 2, 3, 7):
            with mock.patch("article_index.CATCH_UP", batch):
                for _ in range(8):
                    for _ in range(self.random.randint(1, 25)):
                        self.change()
                    self.agree(self.query(), 20)
                    self.assertEqual(self.store.index.lag("kb"), 0)
                    self.store.check()


class Ranking(KnowledgeBaseCase):
    def create(self, **articles: str) -> None:
        """name="title | content" """
        for name, text in articles.items():
            title, content = text.split(" | ")
            self.store.create_article("kb", title, content, name)

    def test_more_words_come_before_words_in_the_title(self) -> None:
        self.create(titled="Parcel late | -", both="- | A parcel is late today.")
        self.assertEqual(self.found("parcel late today"), ["both", "titled"])

    def test_words_in_the_title_come_before_words_in_the_text(self) -> None:
        self.create(text="- | Parcel late", one="Parcel | late", both="Parcel late | -")
        self.assertEqual(self.found("late parcel"), ["both", "one", "text"])

    def test_a_word_in_title_and_text_counts_once(self) -> None:
        self.create(old="Parcel | -", new="Parcel parcel | parcel parcel parcel")
        self.assertEqual(self.found("parcel"), ["old", "new"])

    def test_a_word_asked_twice_counts_once(self) -> None:
        self.create(one="Parcel | -", two="- | late today")
        self.assertEqual(self.found("parcel Parcel PARCEL late today"), ["two", "one"])

    def test_equals_come_oldest_first_whatever_is_saved_later(self) -> None:
        self.create(z="Parcel | -", y="Parcel | -", x="Parcel | -")
        for name in ("z", "x"):
            self.store.save_article("kb", name, "Newer")
        self.store.unpublish_article("kb", "z")
        self.store.publish_article("kb", "z")
        self.assertEqual(self.found("parcel"), ["z", "y", "x"])

    def test_age_is_the_order_of_creation_not_of_names_or_dates(self) -> None:
        self.now += 100
        self.create(b9="Parcel | -")
        self.now -= 200
        self.create(b10="Parcel | -", b1="Parcel | -")
        self.assertEqual(self.found("parcel"), ["b9", "b10", "b1"])

    def test_words_match_whole(self) -> None:
        self.create(one="Parcels | -")
        self.assertEqual(self.found("parcel"), [])
        self.assertEqual(self.found("parcelss"), [])
        self.assertEqual(self.found("parcels"), ["one"])


class Folding(KnowledgeBaseCase):
    def test_case_and_accents_are_folded_on_both_sides(self) -> None:
        for text, queries in (
            ("Résumé", ("resume", "RESUME", "résumé", "re\u0301sume\u0301")),
            ("resume", ("Résumé", "RÉSUMÉ")),
            ("Straße", ("strasse", "STRASSE", "straße")),
            ("ΣΊΣΥΦΟΣ", ("σίσυφος", "σισυφοσ")),
            ("İstanbul", ("istanbul", "ISTANBUL")),
            ("Ёлка", ("елка", "ёлка")),
            ("ﬁle", ("file", "FILE")),
            ("Ｆｕｌｌ", ("full", "ｆｕｌｌ")),
            ("返金", ("返金",)),
            ("x²", ("x2", "X²")),
            ("हिन्दी", ("हिन्दी",)),
        ):
            self.store.save_article("kb", "a", text)
            for query in queries:
                with self.subTest(text=text, query=query):
                    self.assertEqual(self.found(query), ["a"])

    def test_what_only_looks_alike_does_not_match(self) -> None:
        self.store.save_article("kb", "a", "рау")  # Cyrillic
        self.assertEqual(self.found("pay"), [])

    def test_all_but_letters_and_digits_separates(self) -> None:
        self.store.save_article(
            "kb", "a", "one_two-three.four/five\u00a0six\u2028seven\u3000eight'nine\x1aten\x00"[:-1]
        )
        for word in "one two three four five six seven eight nine ten".split():
            self.assertEqual(self.found(f"{word}  "), ["a"], word)
        self.assertEqual(self.found("onetwo"), [])

    def test_what_no_reader_sees_does_not_split_a_word(self) -> None:
        for invisible in "\u00ad\u200b\u200c\u200d\u2060\ufeff\u202e\u2069":
            self.store.save_article("kb", "a", f"soft{invisible}hyphen")
            for query in ("softhyphen", f"so{invisible}fthyphen", f"soft{invisible}hyphen"):
                with self.subTest(hex(ord(invisible)), query=query):
                    self.assertEqual(self.found(query), ["a"])
            self.assertEqual(self.found("hyphen"), [])

    def test_a_script_without_spaces_is_matched_by_whole_runs(self) -> None:
        self.store.save_article("kb", "a", "東京都で検索する。京都")
        self.assertEqual([self.found(query) for query in ("東京", "東京都で検索する", "京都")], [[], ["a"], ["a"]])

    def test_a_query_has_the_same_words_as_a_text(self) -> None:
        for text in (*WORDS, "One_TWO", "½ cup", "ﷺ", "a\u0301b", "Ⅷ"):
            self.assertEqual(set(query_words(text)), plain_words(text))
            self.assertEqual(set(query_words(index_text(text))), plain_words(text))

    def test_no_character_becomes_a_long_text(self) -> None:
        """Else a text within bounds would make an index, and a transaction, beyond all bounds."""
        every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
        self.assertLessEqual(max(len(index_text(character)) for character in every), 8)
        self.assertEqual(index_text("x\ufdfay \ufdfa"), "x\ufdfay \ufdfa")

    def test_folding_twice_changes_nothing(self) -> None:
        every_97th = [chr(code) for code in range(0, 0x110000, 97) if not 0xD800 <= code < 0xE000]
        for character in every_97th:
            once = index_text(f"é{character}")
            self.assertEqual(index_text(once), once, hex(ord(character)))

    def test_any_character_of_a_text_can_be_searched_for(self) -> None:
        letters = [chr(code) for code in range(0x20, 0x30000, 61) if chr(code).isalnum()]
        self.store.save_article("kb", "a", " ".join(f"q{letter}q" for letter in letters))
        for letter in letters:
            self.assertEqual(self.found(f"q{letter}q"), ["a"], hex(ord(letter)))


class CatchingUp(KnowledgeBaseCase):
    def lag(self, base: str = "kb") -> int:
        return self.store.index.lag(base)

    def test_an_edit_leaves_the_index_to_the_next_search(self) -> None:
        self.search("refund")
        self.assertEqual(self.lag(), 0)
        held = self.store.db.execute("SELECT * FROM article_index").fetchall()
        self.edit("New text")
        self.store.unpublish_article("kb", "a")
        self.assertEqual(self.lag(), 2)
        self.assertEqual(self.store.db.execute("SELECT * FROM article_index").fetchall(), held)
        self.search("refund")
        self.assertEqual(self.lag(), 0)

    def test_a_read_a_poll_and_an_edit_do_not_wait_for_the_index(self) -> None:
        with mock.patch.object(self.store.index, "catch_up", side_effect=AssertionError):
            self.read()
            self.poll()
            self.edit("New text")

    def test_an_article_saved_many_times_is_indexed_once(self) -> None:
        for number in range(20):
            self.store.save_article("kb", "a", f"Text {number}")
        self.assertEqual(self.found("text"), ["a"])
        self.assertEqual(self.store.db.execute("SELECT count(*) FROM article_index").fetchone(), (2,))
        self.assertEqual([self.found(f"{number} ") for number in (18, 19)], [[], ["a"]])

    def test_each_batch_is_a_transaction_of_its_own(self) -> None:
        for _ in range(9):
            self.store.save_article("kb", "a", "Text")
        statements: List[str] = []
        self.store.db.set_trace_callback(statements.append)
        with mock.patch("article_index.CATCH_UP", 4):
            self.search("text")
        self.store.db.set_trace_callback(None)
        self.assertEqual(statements.count("BEGIN IMMEDIATE"), 3)  # 10 events

    def test_a_lag_of_any_length_is_followed_in_bounded_batches(self) -> None:
        for events in (1, 3, 4, 5, 8, 9):
            with self.subTest(events), mock.patch("article_index.CATCH_UP", 4):
                before = self.lag()
                for _ in range(events):
                    self.store.save_article("kb", "a", "Text")
                self.assertEqual(self.lag(), before + events)
                with self.store.write:
                    self.store.index.catch_up("kb")
                self.assertEqual(self.lag(), max(0, before + events - 4))

    def test_a_batch_indexes_the_articles_of_its_events_only(self) -> None:
        for _ in range(9):
            self.store.create_article("kb", "Refunds", "")
        with mock.patch("article_index.CATCH_UP", 4), self.store.write:
            self.store.index.catch_up("kb")
        self.assertEqual(self.store.db.execute("SELECT count(*) FROM article_index").fetchone(), (8,))

    def test_a_batch_is_bounded_by_characters_too(self) -> None:
        self.search("refund")
        for length in (4, 4, 3, 30, 1):
            self.store.create_article("kb", "T", "x" * length)
        lags = [self.lag()]
        with mock.patch("article_index.CATCH_UP_TEXT", 10):
            while lags[-1]:
                with self.store.write:
                    self.store.index.catch_up("kb")
                lags.append(self.lag())
        self.assertEqual(lags, [5, 3, 2, 1, 0])  # 4 + 4; 3; one of 30, which no bound keeps out; 1
        self.assertEqual(len(self.found("T ", limit=20)), 5)

    def test_an_article_counts_once_in_a_batch(self) -> None:
        self.search("refund")
        for _ in range(9):
            self.store.save_article("kb", "a", "x" * 9)
        with mock.patch("article_index.CATCH_UP_TEXT", 10), self.store.write:
            self.store.index.catch_up("kb")
        self.assertEqual(self.lag(), 0)

    def test_a_catch_up_without_a_lag_does_nothing(self) -> None:
        self.search("refund")
        with self.store.write:
            self.store.index.catch_up("kb")
        self.assertEqual((self.lag(), self.found("refund")), (0, ["a"]))

    def test_a_sound_store_may_lag(self) -> None:
        self.search("refund")
        self.store.retitle_article("kb", "a", "Other")
        self.store.create_article("kb", "New", "")
        self.store.check()
        self.store.unpublish_article("kb", "a")
        self.store.check()
        with mock.patch("article_index.CATCH_UP", 1), self.store.write:
            self.store.index.catch_up("kb")
        self.store.check()
        self.assertEqual(self.lag(), 2)

    def test_bases_catch_up_each_by_itself(self) -> None:
        self.store.create_knowledge_base("other")
        self.store.create_article("other", "Refunds", "")
        self.search("refund")
        self.assertEqual((self.lag(), self.lag("other")), (0, 1))
        self.search("refund", "other")
        self.store.save_article("kb", "a", "Text")
        self.assertEqual((self.lag(), self.lag("other")), (1, 0))

    def test_an_empty_base_has_nothing_to_follow(self) -> None:
        self.store.create_knowledge_base("empty")
        self.assertEqual(self.search("refund", "empty"), [])
        self.assertEqual(self.lag("empty"), 0)

    def test_a_failed_catch_up_is_taken_back(self) -> None:
        texts = article_index.index_text

        def fails(text: str) -> str:
            raise ZeroDivisionError(text)

        with mock.patch("article_index.index_text", fails), self.assertRaises(ZeroDivisionError):
            self.search("refund")
        self.assertEqual(self.lag(), 1)
        self.assertIs(article_index.index_text, texts)
        self.assertEqual(self.found("refund"), ["a"])


class Speed(KnowledgeBaseCase):
    def test_a_search_reads_articles_by_their_numbers_only(self) -> None:
        """No scan of the texts: apart from the index, the plan visits the few best articles by their key."""
        self.search("refund")
        statements: List[str] = []
        self.store.db.set_trace_callback(statements.append)
        self.search("refund order")
        self.store.db.set_trace_callback(None)
        [ranking] = [statement for statement in statements if "MATCH" in statement]
        plan: List[Optional[Any]] = [row[3] for row in self.store.db.execute("EXPLAIN QUERY PLAN " + ranking)]
        self.assertIn("SEARCH article USING INTEGER PRIMARY KEY (rowid=?)", plan)
        self.assertFalse([step for step in plan if str(step).startswith("SCAN article")], plan)


if __name__ == "__main__":
    unittest.main()
