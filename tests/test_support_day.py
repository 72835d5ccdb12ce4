"""The day: who asks and who saves, the texts, and the truth that a store is held against."""

from __future__ import annotations

import argparse
import random
import unittest
from collections import Counter
from typing import Any, List, Tuple
from unittest import mock

import support_day
from arguments import ToolError
from command_line import make_parser
from report import GroundTruth
from sim import SCRIPT
from support_day import HOUR, KB, Day, Save, World, draw_rank, made_up_name, plan_day, title_text, zipf

PLACES = 70**3  # names that `made_up_name` has


def options(*argv: str) -> argparse.Namespace:
    return make_parser(SCRIPT).parse_args(argv)


class Popularity(unittest.TestCase):
    def test_the_top_ten_of_400_have_the_published_share(self) -> None:
        self.assertAlmostEqual(zipf(400, 0.9)[9], 0.36696, places=5)

    def test_shares_add_up_to_all_and_fall_with_the_rank(self) -> None:
        for ranks, exponent in ((1, 0.9), (2, 0.0), (400, 0.9), (400, 5.0)):
            cumulative = zipf(ranks, exponent)
            shares = [high - low for low, high in zip([0.0, *cumulative], cumulative)]
            self.assertEqual(cumulative[-1], 1.0)
            self.assertTrue(all(share > 0 for share in shares))
            self.assertTrue(all(later <= before + 1e-12 for before, later in zip(shares, shares[1:])))
        self.assertAlmostEqual(zipf(400, 0.9)[1] / zipf(400, 0.9)[0] - 1, 2**-0.9)
        self.assertAlmostEqual(zipf(4, 0.0)[0], 0.25)

    def test_a_draw_finds_the_rank_whose_share_it_falls_in(self) -> None:
        cumulative = [0.5, 0.75, 1.0]
        for uniform, rank in ((0.0, 0), (0.499, 0), (0.5, 1), (0.749, 1), (0.75, 2), (0.999, 2), (1.0, 2)):
            self.assertEqual(draw_rank(cumulative, uniform), rank)


class Plans(unittest.TestCase):
    def plan(self, seed: int = 1, *argv: str, even: bool = False) -> Day:
        return plan_day(seed, options(*argv), even)

    def test_a_day_has_what_the_options_say(self) -> None:
        day = self.plan()
        self.assertEqual((len(day.topics), len(day.questions), len(day.saves)), (400, 120, 300))
        day = self.plan(1, "--articles", "30", "--questions", "7", "--saves", "0", "--topics", "2", "--hours", "3")
        self.assertEqual((len(day.topics), len(day.questions), len(day.saves)), (30, 7, 0))
        self.assertEqual(set(day.topics), {0, 1})
        self.assertTrue(all(0 <= question.seconds < 3 * HOUR for question in day.questions))

    def test_what_happens_comes_in_the_order_of_time(self) -> None:
        day = self.plan()
        for moments in (day.questions, day.saves):
            seconds = [moment.seconds for moment in moments]
            self.assertEqual(seconds, sorted(seconds))

    def test_times_are_even_over_the_day(self) -> None:
        day = self.plan(1, "--questions", "8000", "--saves", "8000")
        for moments in (day.questions, day.saves):
            by_hour = Counter(int(moment.seconds // HOUR) for moment in moments)
            self.assertEqual(set(by_hour), set(range(8)))
            self.assertTrue(all(abs(count - 1000) < 150 for count in by_hour.values()), by_hour)

    def test_questions_and_saves_follow_one_popularity(self) -> None:
        day = self.plan(1, "--questions", "20000", "--saves", "20000")
        for moments in (day.questions, day.saves):
            top10 = sum(moment.rank < 10 for moment in moments) / len(moments)
            self.assertAlmostEqual(top10, 0.367, delta=0.02)

    def test_kinds_of_saves_have_their_shares(self) -> None:
        kinds = Counter(save.kind for save in self.plan(1, "--saves", "20000").saves)
        for kind, share in (("content", 0.85), ("title", 0.10), ("unpublish", 0.05)):
            self.assertAlmostEqual(kinds[kind] / 20_000, share, delta=0.01)
        self.assertEqual({save.kind for save in self.plan(1, "--retitle", "100", "--unpublish", "0").saves}, {"title"})
        kinds = Counter(save.kind for save in self.plan(1, "--retitle", "0", "--unpublish", "100").saves)
        self.assertEqual(kinds, {"unpublish": 300})

    def test_kinds_that_come_to_more_than_all_are_refused(self) -> None:
        self.plan(1, "--retitle", "40", "--unpublish", "60")
        with self.assertRaisesRegex(ValueError, "--retitle and --unpublish"):
            self.plan(1, "--retitle", "40.1", "--unpublish", "60")

    def test_the_control_spreads_the_same_saves_evenly(self) -> None:
        day, control = self.plan(1, "--saves", "20000"), self.plan(1, "--saves", "20000", even=True)
        self.assertEqual((control.questions, control.topics), (day.questions, day.topics))
        self.assertEqual([(s.seconds, s.kind) for s in control.saves], [(s.seconds, s.kind) for s in day.saves])
        self.assertAlmostEqual(sum(save.rank < 10 for save in control.saves) / 20_000, 10 / 400, delta=0.005)
        self.assertEqual({save.rank for save in control.saves}, set(range(400)))

    def test_a_plan_depends_on_seed_and_options_only(self) -> None:
        first = self.plan(3)
        self.plan(4)
        random.seed(0)
        self.assertEqual(self.plan(3), first)
        self.assertNotEqual(self.plan(4), first)

    def test_more_saves_leave_the_questions_as_they_were(self) -> None:
        self.assertEqual(self.plan(1, "--saves", "3").questions, self.plan(1).questions)

    def test_nothing_but_random_is_drawn_from(self) -> None:
        """Other methods of Random draw differently from one Python to the next."""

        genuine = random.Random

        class OnlyRandom:
            def __init__(self, seed: Any) -> None:
                self.random = genuine(seed).random

        expected, texts = self.plan(), world_texts(1)
        support_day.first_articles.cache_clear()
        with mock.patch("report.random.Random", OnlyRandom):
            self.assertEqual(self.plan(), expected)
            self.assertEqual(world_texts(1), texts)


def world_texts(seed: int) -> List[Tuple[str, str]]:
    """Titles and contents of a small world after every article was saved once."""
    world = small_world(seed)
    for rank in range(len(world.day.topics)):
        world.save(Save(0.0, rank, "title"))
    texts = list(zip(world.truth.titles, world.truth.contents))
    world.store.close()
    return texts


def small_world(seed: int, *argv: str) -> World:
    small = options("--articles", "6", "--topics", "2", *argv)
    return World(seed, plan_day(seed, small), GroundTruth())


class Texts(unittest.TestCase):
    def test_every_index_has_a_name_of_its_own(self) -> None:
        self.assertEqual(len({made_up_name(index) for index in range(0, PLACES)}), PLACES)

    def test_names_are_one_word_each_and_no_other_text_has_them(self) -> None:
        names = [made_up_name(index) for index in range(10_000)]
        self.assertTrue(all(name.isalpha() and name.istitle() and len(name) == 6 for name in names))
        texts = " ".join((*support_day.TOPICS, *support_day.ACTIONS, *support_day.STATEMENTS, "support team"))
        self.assertFalse(set(names) & set(texts.title().replace(",", "").replace(".", "").split()))

    def test_titles_never_repeat(self) -> None:
        titles = [title_text(rank, rank % 24, revision) for rank in range(400) for revision in range(60)]
        self.assertEqual(len(set(titles)), len(titles))

    def test_topics_never_share_a_name(self) -> None:
        names = [support_day.topic_name(topic) for topic in range(10_000)]
        names += [made_up_name(rank) for rank in range(100_000)]
        self.assertEqual(len({name.lower() for name in names}), len(names))

    def test_titles_and_questions_fit_the_tools_limits(self) -> None:
        for rank, topic, revision in ((0, 0, 0), (99_999, 9_999, 99_999)):
            self.assertLessEqual(len(title_text(rank, topic, revision)), 200)
            self.assertTrue(2 <= len(support_day.question_text(rank, topic)) <= 200)

    def test_no_text_of_an_article_comes_back(self) -> None:
        world = small_world(1)
        seen = {world.truth.contents[0]}
        for number in range(1, 200):
            world.save(Save(0.0, 0, "content"))
            seen.add(world.truth.contents[0])
            self.assertEqual(len(seen), number + 1)
        world.store.close()


class Worlds(unittest.TestCase):
    def setUp(self) -> None:
        self.world = small_world(1)
        self.addCleanup(self.world.store.close)

    def read(self, rank: int) -> Any:
        return self.world.store.call(
            "read_knowledge_article", support_day.article_arguments(support_day.article_id(rank))
        )

    def cite(self, rank: int) -> support_day.Version:
        citation = self.read(rank)["citation"]
        version = citation["article_id"], citation["updated_at"]
        truth = self.world.truth
        truth.cited[version] = (rank, truth.saves[rank], truth.titles[rank])
        return version

    def test_a_store_begins_with_every_article_published_and_unsaved(self) -> None:
        for rank in range(6):
            article = self.read(rank)
            self.assertEqual(article["title"], self.world.truth.titles[rank])
            self.assertEqual(article["content"], self.world.truth.contents[rank])
        self.assertEqual(self.world.store.latest_sequence(KB), 6)
        self.world.finish()

    def test_article_ids_follow_the_popularity_order(self) -> None:
        self.assertEqual([support_day.article_id(rank) for rank in (0, 398, 99_999)], ["a001", "a399", "a100000"])
        self.assertEqual([support_day.article_rank(name) for name in ("a001", "a399", "a100000")], [0, 398, 99_999])

    def test_each_kind_of_save_changes_the_store_and_the_truth_alike(self) -> None:
        before = self.read(0)
        self.world.save(Save(0.0, 0, "content"))
        self.assertEqual(self.read(0)["title"], before["title"])
        self.assertNotEqual(self.read(0)["content"], before["content"])
        self.world.save(Save(0.0, 0, "title"))
        self.assertNotEqual(self.read(0)["title"], before["title"])
        self.world.save(Save(0.0, 1, "unpublish"))
        with self.assertRaises(ToolError):
            self.read(1)
        self.world.finish()

    def test_each_save_is_one_event_and_an_unpublished_article_stays_unpublished(self) -> None:
        for kind in ("content", "title", "unpublish", "unpublish", "content", "title"):
            self.world.save(Save(0.0, 0, kind))
        events = self.world.store.poll_resource_events("knowledge_base", KB, 6)["events"]
        self.assertEqual(
            [event["type"] for event in events], ["saved", "retitled", "unpublished", "saved", "saved", "retitled"]
        )
        with self.assertRaises(ToolError):
            self.read(0)
        self.world.finish()

    def test_a_save_is_stamped_with_the_worlds_time(self) -> None:
        self.world.now = 90.0
        self.world.save(Save(90.0, 0, "content"))
        self.assertEqual(self.read(0)["citation"]["updated_at"][10:], "T09:01:30.000000Z")

    def test_the_truth_knows_what_is_stale_renamed_and_gone(self) -> None:
        content, title, gone, _ = (self.cite(rank) for rank in range(4))
        self.assertEqual((self.world.truth.stale(), self.world.truth.renamed_or_gone()), ({}, set()))
        for rank, kind in enumerate(("content", "title", "unpublish")):
            self.world.save(Save(0.0, rank, kind))
        self.assertEqual(self.world.truth.stale(), {content: "changed", title: "changed", gone: "gone"})
        self.assertEqual(self.world.truth.renamed_or_gone(), {title, gone})
        fresh = self.cite(0)
        self.assertEqual(set(self.world.truth.stale()), {content, title, gone})
        self.world.save(Save(0.0, 0, "content"))
        self.assertEqual(self.world.truth.stale()[fresh], "changed")

    def test_worlds_of_one_seed_share_nothing(self) -> None:
        self.world.save(Save(0.0, 0, "title"))
        other = small_world(1)
        self.addCleanup(other.store.close)
        self.assertEqual(other.truth.saves, [0] * 6)
        other.finish()
        self.world.finish()

    def test_worlds_of_other_seeds_have_other_texts(self) -> None:
        other = small_world(2)
        self.addCleanup(other.store.close)
        self.assertNotEqual(other.truth.contents, self.world.truth.contents)


if __name__ == "__main__":
    unittest.main()
