"""The support day that `sim.py` plays: who asks, who saves what when, the texts, and the world they happen in.

Glossary
    rank      0, 1, 2, … : an article's place in popularity, and the order in which articles are created
    topic     what an article is about, with others; a question finds its article first and then its topic's oldest
    question  (seconds, rank): somebody asks about an article
    save      (seconds, rank, kind): a person saves an article; kind: content, title (content and title) or unpublish
    day       all questions and saves of one seed, by time
    truth     what the articles are by the simulation's own account, apart from the store that it checks
    world     a store under a clock that the simulation sets, and the people who save in it

Source: the first post ("La ricostruzione"). It prints how many articles, questions and saves there are, the Zipf
exponent and the shares of kinds. That times are uniform and topics differ in size is inferred: results/README.md.
"""

from __future__ import annotations

import argparse
import random
import weakref
from bisect import bisect
from functools import lru_cache
from itertools import accumulate
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

from arguments import JSON, ToolError
from command_line import real, whole
from kb_store import KnowledgeBaseStore
from report import GroundTruth, pick, rng

KB = "kb"

END_CHECK = "at the end every published article is as it was last saved, and no other is there"

HOUR = 3600.0
DAY_BEGINS = 1_762_765_200.0  # 2025-11-10 09:00 UTC, a Monday; only differences matter

PARAGRAPHS = 4
SENTENCES = 4  # a paragraph


class Question(NamedTuple):
    seconds: float
    rank: int


class Save(NamedTuple):
    seconds: float
    rank: int
    kind: str


class Day(NamedTuple):
    topics: List[int]  # of each article, by rank
    questions: List[Question]
    saves: List[Save]


def plan_day(seed: int, options: argparse.Namespace, even_saves: bool = False) -> Day:
    """A seed's day. `even_saves` is the control run: the same saves, spread evenly over the articles.

    Raises ValueError if the options' kinds of saves come to more than all.
    """
    if options.retitle + options.unpublish > 100:
        raise ValueError("--retitle and --unpublish must not come to more than 100 percent together")
    popularity = zipf(options.articles, options.zipf)
    topics = draw_topics(seed, options.articles, zipf(options.topics, options.topic_zipf))
    seconds = options.hours * HOUR
    draw = rng(seed, "questions").random
    questions = [Question(draw() * seconds, draw_rank(popularity, draw())) for _ in range(options.questions)]
    draw = rng(seed, "saves").random
    saves = []
    for _ in range(options.saves):
        when, where, what = draw() * seconds, draw(), 100 * draw()
        rank = int(where * options.articles) if even_saves else draw_rank(popularity, where)
        kind = (
            "unpublish"
            if what < options.unpublish
            else "title"
            if what < options.unpublish + options.retitle
            else "content"
        )
        saves.append(Save(when, rank, kind))
    return Day(topics, sorted(questions), sorted(saves))


def draw_topics(seed: int, articles: int, topic_sizes: List[float]) -> List[int]:
    """The topic of each article, by rank; `topic_sizes` are cumulative shares."""
    draw = rng(seed, "topics").random
    return [draw_rank(topic_sizes, draw()) for _ in range(articles)]


def zipf(ranks: int, exponent: float) -> List[float]:
    """Cumulative shares: rank r (from 1) weighs r^-exponent. The first ten of 400 at 0.9 have 36.696%."""
    weights = list(accumulate((rank + 1) ** -exponent for rank in range(ranks)))
    return [weight / weights[-1] for weight in weights]


def popularity_shares(ranks: int, exponent: float) -> List[float]:
    """The share of each rank by itself; they sum to 1."""
    cumulative = zipf(ranks, exponent)
    return [up_to - before for up_to, before in zip(cumulative, [0.0, *cumulative])]


def draw_rank(cumulative: List[float], uniform: float) -> int:
    return min(bisect(cumulative, uniform), len(cumulative) - 1)


# --- options ----------------------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    for name, kind, default, about in (
        ("--articles", whole(2, 100_000), 400, "articles in the knowledge base"),
        ("--questions", whole(1, 100_000), 120, "questions a day"),
        ("--saves", whole(0, 100_000), 300, "people's saves a day"),
        ("--hours", whole(1, 168), 8, "hours a day"),
        ("--zipf", real(0, 5), 0.9, "exponent of popularity: an article of rank r weighs r^-ZIPF"),
        ("--retitle", real(0, 100), 10.0, "percent of saves that change the title too"),
        ("--unpublish", real(0, 100), 5.0, "percent of saves that unpublish"),
        ("--topics", whole(1, 10_000), 24, "topics (inferred)"),
        ("--topic-zipf", real(0, 5), 0.9, "exponent of the topics' sizes (inferred)"),
    ):
        parser.add_argument(name, type=kind, default=default, metavar="N", help=f"{about} (default: {default:g})")


def default_options() -> argparse.Namespace:
    """The posts' day, for who plays it without a command line."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args([])


# --- the world a day is played in -------------------------------------------------------------------------------------


Version = Tuple[str, str]  # (article_id, updated_at): what makes two citations one
Stale = Dict[Version, str]  # each stale version, and why: changed or gone


@lru_cache(maxsize=1)
def first_articles(seed: int, topics: Tuple[int, ...]) -> Tuple[List[Tuple[str, str]], KnowledgeBaseStore]:
    """([(title, content)], a store that holds them): how each part of a seed begins. Made once, then copied."""
    texts = first_texts(seed, topics)
    store = KnowledgeBaseStore(clock=lambda: DAY_BEGINS)
    store.create_knowledge_base(KB)
    for rank, (title, content) in enumerate(texts):
        store.create_article(KB, title, content, article_id(rank))
    store.search_knowledge_base(KB, "first")  # brings the index up to date
    weakref.finalize(store, store.db.close)  # when another seed's takes its place
    return texts, store


class Truth:
    """What the articles are, by the simulation's own account. Versions are plain counts of saves."""

    def __init__(self, texts: List[Tuple[str, str]]) -> None:
        self.titles = [title for title, _ in texts]
        self.contents = [content for _, content in texts]
        self.published = [True] * len(texts)
        self.saves = [0] * len(texts)
        self.retitles = [0] * len(texts)
        self.cited: Dict[Version, Tuple[int, int, str]] = {}  # -> (rank, saves when it was cited, title)

    def stale(self) -> Stale:
        return {
            version: "changed" if self.published[rank] else "gone"
            for version, (rank, saves, _) in self.cited.items()
            if self.saves[rank] > saves
        }

    def renamed_or_gone(self) -> Set[Version]:
        return {
            version
            for version, (rank, _, title) in self.cited.items()
            if title != self.titles[rank] or not self.published[rank]
        }


class World:
    """One store under a clock that the simulation sets, the people who save in it, and the truth about it."""

    def __init__(self, seed: int, day: Day, checks: GroundTruth) -> None:
        texts, first = first_articles(seed, tuple(day.topics))
        self.day = day
        self.now = 0.0  # seconds since the day began
        self.store = KnowledgeBaseStore(clock=lambda: DAY_BEGINS + self.now)
        first.db.backup(self.store.db)
        self.checks = checks
        self.truth = Truth(texts)
        self.random = rng(seed, "changes")

    def save(self, save: Save) -> None:
        """A person's save. Saving an unpublished article saves its draft; it stays unpublished (inferred)."""
        truth, rank = self.truth, save.rank
        truth.saves[rank] += 1
        if save.kind == "unpublish" and truth.published[rank]:
            truth.published[rank] = False
            self.store.unpublish_article(KB, article_id(rank))
            return
        truth.contents[rank] = changed_content(self.random, truth.contents[rank], sum(truth.saves))
        if save.kind == "title":
            truth.retitles[rank] += 1
            truth.titles[rank] = title_text(rank, self.day.topics[rank], truth.retitles[rank])
        self.store.save_article(KB, article_id(rank), truth.contents[rank], truth.titles[rank])

    def finish(self) -> None:
        """The last check: what the store holds is what was saved, to the letter, and its own invariants hold."""
        held, expected = {}, {}
        for rank in range(len(self.truth.titles)):
            try:
                article = self.store.call("read_knowledge_article", article_arguments(article_id(rank)))
                held[rank] = (article["title"], article["content"])
            except ToolError:
                pass
            if self.truth.published[rank]:
                expected[rank] = (self.truth.titles[rank], self.truth.contents[rank])
        self.checks.equal(END_CHECK, held, expected)
        self.checks.store_is_sound(self.store)
        self.store.close()


def article_id(rank: int) -> str:
    return f"a{rank + 1:03d}"


def article_rank(identifier: str) -> int:
    return int(identifier[1:]) - 1


def article_arguments(identifier: str) -> JSON:
    return {"knowledge_base_id": KB, "article_id": identifier}


# --- texts: ours, since the posts publish none ------------------------------------------------------------------------

TOPICS = (
    "Invoices Parcels Logins Refunds Events Exports Printing Deals Leave Payroll Repairs Backups "
    "Coupons Postage Vouchers Licences Places Alerts Charts Webhooks Labels Stamps Folders Surveys"
).split()

ACTIONS = (
    "Restore Replace Share Renew Cancel Verify Merge Move Split Copy Delay Return Combine Archive Lock Open "
    "Search Sort Import Assign Approve Print Compare Rename"
).split()

STATEMENTS = (
    "Open the settings page from the menu at the top right and choose the workspace first.",
    "Changes take effect at once for everybody who works in the same workspace.",
    "Ask an administrator if the button is grey, because members may look but not change.",
    "A message with the reference number arrives by mail within a few minutes.",
    "Keep the reference number until the case is closed, because support will ask for it.",
    "If the page stays empty, reload it once and wait for the list to fill before going on.",
    "The old value stays in the history, where it can be found again under its date.",
    "Only the owner of the record is told about this, nobody else receives a message.",
    "Mobile apps show the new state after the next synchronisation, usually within the hour.",
    "This works in the same way for trial accounts, which keep their data for thirty days.",
    "Before going on, check that the customer is the one named on the order.",
    "When two people work on it at the same time, the later one is asked to look again.",
    "Use the short form in conversations and send the long form as a link if needed.",
    "The limit is counted by calendar month and starts afresh on the first day.",
    "Write down what the customer sees on the screen, word for word, before changing anything.",
    "Close the window with the cross, since the back key would discard what was typed.",
)

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
SYLLABLES = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]


def topic_name(topic: int) -> str:
    return TOPICS[topic] if topic < len(TOPICS) else made_up_name(200_000 + topic)


def made_up_name(index: int) -> str:
    """A name like Kamobe, another one for each index below 70^3: the word that only one article has."""
    scattered = (index + 1) * 7919 % len(SYLLABLES) ** 3  # 7919 and 70 have no common factor, so no two indices meet
    first, rest = divmod(scattered, len(SYLLABLES) ** 2)
    return (SYLLABLES[first] + SYLLABLES[rest // len(SYLLABLES)] + SYLLABLES[rest % len(SYLLABLES)]).capitalize()


def question_text(rank: int, topic: int) -> str:
    return f"{topic_name(topic)} {made_up_name(rank)}"


def title_text(rank: int, topic: int, revision: int) -> str:
    """Another title for each revision, so that no title comes back."""
    title = f"{topic_name(topic)}: {ACTIONS[(rank // 5 + rank + revision) % len(ACTIONS)]} {made_up_name(rank)}"
    return f"{title}, part {revision}" if revision else title


def first_texts(seed: int, topics: Sequence[int]) -> List[Tuple[str, str]]:
    """[(title, content)] of each article as the day begins, by rank."""
    random_source = rng(seed, "texts")
    return [(title_text(rank, topic, 0), content_text(random_source, rank, topic)) for rank, topic in enumerate(topics)]


def content_text(random_source: random.Random, rank: int, topic: int) -> str:
    opening = (
        f"{topic_name(topic)} and {made_up_name(rank)}: what the support team says when a customer asks about it, "
        "what to check before answering, and whom to ask."
    )
    return "\n\n".join([opening] + [paragraph(random_source) for _ in range(PARAGRAPHS)])


def changed_content(random_source: random.Random, content: str, change: int) -> str:
    """The content with one paragraph written anew; numbering the changes makes sure that no text comes back."""
    paragraphs = content.split("\n\n")
    paragraphs[1 + change % PARAGRAPHS] = f"{paragraph(random_source)} (Change {change}.)"
    return "\n\n".join(paragraphs)


def paragraph(random_source: random.Random) -> str:
    return " ".join([pick(random_source, STATEMENTS) for _ in range(SENTENCES)])
