"""The support day: the post's figures come out, broken stores are found out, and the script keeps its manners."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import weakref
from functools import cache
from typing import Any, Dict, List, Optional, Tuple
from unittest import mock

import command_line
import compare
import report
import sim
import support_day
from arguments import JSON, ToolError
from kb_store import KnowledgeBaseStore
from report import GroundTruthFailed
from sim_report import DELAYS
from support_day import KB

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = "--articles 40 --questions 30 --saves 80 --hours 3 --topics 6".split()
TINY = "--articles 12 --questions 8 --saves 20 --hours 2 --topics 3".split()


def small(*argv: str) -> argparse.Namespace:
    return command_line.make_parser(sim.SCRIPT).parse_args([*SMALL, *argv])


def output(*argv: str, jobs: int = 1) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        command_line.main(sim.SCRIPT, [*argv, "--jobs", str(jobs)])
    return out.getvalue()


def figures(*argv: str) -> Dict[str, Optional[float]]:
    found: Dict[str, Optional[float]] = json.loads(output(*argv, "--json", "-"))["figures"]
    return found


class ThePostsFigures(unittest.TestCase):
    """One run over the post's five seeds, shared by all tests."""

    text = ""
    document: JSON = {}
    figures: Dict[str, Any] = {}

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "day.json")
            cls.text = output("--seeds", "1-5", "--json", path, jobs=2)
            with open(path, encoding="utf-8") as file:
                cls.document = json.load(file)
        cls.figures = cls.document["figures"]

    def test_every_published_figure_is_measured_but_the_running_time(self) -> None:
        published = {name for name, figure in compare.FIGURES.items() if figure["kind"] != "timing"}
        published = {name for name in published if name.startswith("sim.")}
        self.assertEqual(len(published), 70)
        self.assertEqual(published - set(self.figures), set())
        self.assertNotIn("sim.runtime_seconds", self.figures)

    def test_every_figure_of_ours_has_an_id_of_the_same_form(self) -> None:
        for name in self.figures:
            self.assertRegex(name, r"^sim(\.[a-z0-9_]+)+$")

    def test_every_exact_figure_is_equal_and_every_size_within_its_tolerance(self) -> None:
        for name, figure in compare.FIGURES.items():
            if name in self.figures and figure["kind"] in ("exact", "size"):
                with self.subTest(name):
                    self.assertTrue(compare.fits(self.figures[name], name), self.figures[name])
        self.assertIn("exact: 10 of 10 equal", self.text)
        self.assertIn("size: 4 of 4 within 2%", self.text)

    def test_sampled_figures_come_near(self) -> None:
        """Within four of the standard deviations that a model of the day has (three counts of each kind here)."""
        for name, deviation in (
            ("sim.staleness.hour8.stale", 19), ("sim.control.stale", 11), ("sim.control.answers_stale", 27),
            ("sim.cost.reread.calls", 76), ("sim.cost.title.calls", 80), ("sim.edits.1h.version_conflicts", 6),
            ("sim.staleness.hour8.title_check_found", 17), ("sim.edits.4h.version_conflicts", 7),
        ):  # fmt: skip
            published = compare.PUBLISHED[name]
            self.assertAlmostEqual(self.figures[name], published, delta=4 * deviation, msg=name)

    def test_figures_add_up(self) -> None:
        found = self.figures
        for hour in range(1, 9):
            of_hour = {name.split(".")[-1]: found[name] for name in found if f".staleness.hour{hour}." in name}
            self.assertLessEqual(of_hour["title_check_found"], of_hour["stale"])
            self.assertLessEqual(of_hour["gone"], of_hour["title_check_found"])
            self.assertLessEqual(of_hour["stale"], of_hour["given_stale"])
            self.assertLessEqual(of_hour["stale"], of_hour["distinct"])
            self.assertLessEqual(of_hour["given_stale"], 2 * of_hour["answers_stale"])
            self.assertLessEqual(of_hour["answers_stale"], of_hour["given_stale"])
            self.assertEqual(of_hour["citations"], 2 * of_hour["answers"])
        edits = [
            {name.split(".")[-1]: found[name] for name in found if name.startswith(f"sim.edits.{delay}.")}
            for delay, _, _ in DELAYS
        ]
        for delayed in edits:
            self.assertEqual(delayed["retries_saved"], delayed["version_conflicts"])
        refused = sum(delayed["version_conflicts"] + delayed["no_longer_published"] for delayed in edits)
        self.assertEqual(found["sim.edits.replays_sent"], 600 - refused)
        self.assertEqual(found["sim.edits.replays_marked"], found["sim.edits.replays_sent"])
        self.assertEqual(
            found["sim.edits.no_longer_published_total"], sum(delayed["no_longer_published"] for delayed in edits)
        )

    def test_every_check_ran_as_often_as_it_should(self) -> None:
        passed = {name[len("check: ") :]: times for name, times in self.document["counts"].items() if ":" in name}
        self.assertEqual(passed[sim.EDIT_CHECK], 600)
        self.assertEqual(passed[sim.READ_CHECK], 3 * 5 * 240)  # day, control and late edits
        for rule in (sim.TITLE_CHECK, sim.LOG_CHECK, *sim.ID_CHECKS.values()):
            self.assertEqual(passed[rule], 40 + 5)  # hourly, and the control once
        self.assertEqual(passed[sim.REPLAY_CHECK], self.figures["sim.edits.replays_sent"])
        retried = sum(self.figures[f"sim.edits.{delay}.version_conflicts"] for delay, _, _ in DELAYS)
        self.assertEqual(passed[sim.RETRY_CHECK], retried)
        for rule in (support_day.END_CHECK, report.STORE_CHECK):
            self.assertEqual(passed[rule], 15)
        for rule, times in passed.items():
            self.assertIn(f"PASS  {rule}: {times:,} of {times:,} checks\n", self.text)

    def test_every_table_of_the_post_is_printed_with_the_published_figures_beside_ours(self) -> None:
        lines = self.text.split("\n")
        for text in ("24/152 (15.8%)", "369/1,200 (30.8%)", "167/1,200 (13.9%)", "280/600 (46.7%)", "3,342 KiB",
                     "2,264", "85/150 (56.7%)", "409/409 (100.0%)", "80.2%", "152/369 (41.2%)"):  # fmt: skip
            self.assertTrue(any(text in line and "published" in line for line in lines), text)
        rows = [line.split()[:2] for line in lines]
        for hour in ("1", "2", "4", "6", "8"):
            self.assertIn([hour, "ours"], rows)

    def test_the_text_can_be_printed_anywhere(self) -> None:
        self.assertTrue(self.text.isascii())

    def test_nothing_with_a_time_or_a_path_in_it(self) -> None:
        self.assertNotIn(HERE, self.text + json.dumps(self.document))
        self.assertNotRegex(self.text, r"\b[0-9.]+ ?(s|ms|seconds)\n")


class TheAgent(unittest.TestCase):
    def agent(self, *argv: str) -> sim.Agent:
        world = support_day.World(1, support_day.plan_day(1, small(*argv)), report.GroundTruth())
        self.addCleanup(world.store.close)
        return sim.Agent(world)

    def test_an_answer_cites_the_asked_article_first(self) -> None:
        agent = self.agent()
        for question in agent.world.day.questions:
            first = agent.answer(question)
            self.assertEqual(first["citation"]["article_id"], support_day.article_id(question.rank))
            self.assertEqual(agent.answers[-1][0].article_id, first["citation"]["article_id"])

    def test_an_answer_cites_two_different_articles_however_small_the_topics(self) -> None:
        for topics in ("1", "6", "500"):
            agent = self.agent("--topics", topics)
            for question in agent.world.day.questions:
                agent.answer(question)
                self.assertEqual(len({cited.article_id for cited in agent.answers[-1]}), 2)

    def test_an_answer_cites_what_is_left(self) -> None:
        agent = self.agent("--articles", "3")
        question = agent.world.day.questions[0]
        for left in (2, 1, 0):
            agent.world.save(support_day.Save(0.0, left, "unpublish"))
            agent.answer(question)
            self.assertEqual(len(agent.answers[-1]), left)

    def test_the_cursor_is_one_integer_that_rises_with_the_log(self) -> None:
        agent = self.agent()
        self.assertEqual(agent.cursor, 40)
        for save in agent.world.day.saves:
            agent.world.save(save)
        agent.check_by_polling()
        self.assertEqual(agent.cursor, 120)

    def test_polling_goes_on_while_there_is_more(self) -> None:
        agent = self.agent("--saves", "250")
        for save in agent.world.day.saves:
            agent.world.save(save)
        agent.check_by_polling()
        self.assertEqual((agent.cursor, agent.costs["poll"][0]), (290, 3))

    def test_each_distinct_title_and_article_is_asked_for_once(self) -> None:
        agent = self.agent()
        for question in agent.world.day.questions:
            agent.answer(question)
        cited = [cited for answer in agent.answers for cited in answer]
        agent.check_by_title()
        agent.check_by_rereading()
        self.assertEqual(agent.costs["title"][0], len({each.title for each in cited}))
        self.assertEqual(agent.costs["reread"][0], len({each.article_id for each in cited}))
        self.assertLess(agent.costs["reread"][0], len(cited))

    def test_data_is_counted_in_bytes_of_what_came_back_refusals_too(self) -> None:
        agent = self.agent()
        arguments = support_day.article_arguments("a001")
        article = agent.ask("reread", "read_knowledge_article", arguments)
        size = len(json.dumps(article, ensure_ascii=False).encode())
        self.assertEqual(agent.costs["reread"], [1, size])
        refusal = agent.ask("reread", "read_knowledge_article", support_day.article_arguments("é→unknown"))
        self.assertEqual(refusal["error"], "not_found")
        size += len(json.dumps(refusal, ensure_ascii=False).encode())
        self.assertEqual(agent.costs["reread"], [2, size])
        self.assertGreater(len(json.dumps(refusal, ensure_ascii=False).encode()), len(str(refusal)))

    def test_checks_come_after_all_else_at_their_hour(self) -> None:
        day = support_day.Day([0], [support_day.Question(3600.0, 0)], [support_day.Save(3600.0, 0, "content")])
        kinds = [type(what).__name__ for _, what in sim.timeline(day, [1])]
        self.assertEqual(kinds, ["Question", "Save", "int"])


# --- stores, each broken in one way. The door calls tools by keyword, so `sent` is the whole call ---------------------


class Broken(KnowledgeBaseStore):
    """Remembers the first answer about each article, to give it again at the wrong moment."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.first: Dict[str, JSON] = {}
        weakref.finalize(self, self.db.close)  # a run that is stopped closes nothing


class StaleSearchTitle(Broken):
    def search_knowledge_base(self, **sent: Any) -> JSON:  # type: ignore[override]
        results = super().search_knowledge_base(**sent)["results"]
        for result in results:
            result["title"] = self.first.setdefault(result["citation"]["article_id"], result)["title"]
        return {"results": results}


class SearchLosesAHit(Broken):
    def search_knowledge_base(self, **sent: Any) -> JSON:  # type: ignore[override]
        results = super().search_knowledge_base(**sent)["results"]
        return {"results": results if ":" not in sent["query"] else results[1:]}


class ReadReturnsOldText(Broken):
    def read_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        article = super().read_knowledge_article(**sent)
        return {**article, "content": self.first.setdefault(sent["article_id"], article)["content"]}


class ReadReturnsOldTitle(Broken):
    def read_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        article = super().read_knowledge_article(**sent)
        return {**article, "title": self.first.setdefault(sent["article_id"], article)["title"]}


class ReadCitesOldVersion(Broken):
    def read_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        article = super().read_knowledge_article(**sent)
        return {**article, "citation": self.first.setdefault(sent["article_id"], article)["citation"]}


class UnpublishedStaysReadable(Broken):
    def read_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        try:
            self.first[sent["article_id"]] = super().read_knowledge_article(**sent)
        except ToolError:
            if sent["article_id"] not in self.first:
                raise
        return self.first[sent["article_id"]]


class PollLosesAnEvent(Broken):
    def poll_resource_events(self, **sent: Any) -> JSON:  # type: ignore[override]
        page = super().poll_resource_events(**sent)
        return {**page, "events": page["events"][:-1]}


class PollLosesAnEventThatNobodyAskedAbout(Broken):
    def poll_resource_events(self, **sent: Any) -> JSON:  # type: ignore[override]
        page = super().poll_resource_events(**sent)
        return {**page, "events": [event for event in page["events"] if event["article_id"] in self.first]}

    def read_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        self.first[sent["article_id"]] = {}
        return super().read_knowledge_article(**sent)


class PollCallsUnpublishingASave(Broken):
    def poll_resource_events(self, **sent: Any) -> JSON:  # type: ignore[override]
        page = super().poll_resource_events(**sent)
        return {**page, "events": [{**event, "type": "saved"} for event in page["events"]]}


class PollGivesOldVersions(Broken):
    def poll_resource_events(self, **sent: Any) -> JSON:  # type: ignore[override]
        page = super().poll_resource_events(**sent)
        return {**page, "events": [{**event, "updated_at": "2020-01-01T00:00:00Z"} for event in page["events"]]}


class PollSaysThereIsNoMore(Broken):
    def poll_resource_events(self, **sent: Any) -> JSON:  # type: ignore[override]
        return {**super().poll_resource_events(**{**sent, "limit": 5}), "has_more": False}


class EditIgnoresTheVersion(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        try:
            return super().edit_knowledge_article(**sent)
        except ToolError as refusal:
            if refusal.payload["error"] != "version_conflict":
                raise
            current = self.read_knowledge_article(KB, sent["article_id"])["citation"]["updated_at"]
            return super().edit_knowledge_article(**{**sent, "expected_version": current})


class EditSavesAndSaysConflict(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        super().edit_knowledge_article(**sent)
        raise ToolError("version_conflict")


class EditSaysConflictForGone(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        try:
            return super().edit_knowledge_article(**sent)
        except ToolError as refusal:
            raise ToolError("version_conflict") from refusal


class EditReachesTheUnpublished(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        try:
            return super().edit_knowledge_article(**sent)
        except ToolError as refusal:
            if refusal.payload["error"] != "not_found":
                raise
            return {"citation": self.save_article(KB, sent["article_id"], sent["content"]), "replayed": False}


class EditRefusesRetries(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        if sent["idempotency_key"].endswith("retry"):
            raise ToolError("version_conflict")
        return super().edit_knowledge_article(**sent)


class EditTakesRetriesForReplays(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        result = super().edit_knowledge_article(**sent)
        return {**result, "replayed": True} if sent["idempotency_key"].endswith("retry") else result


class EditCutsTheText(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        return super().edit_knowledge_article(**{**sent, "content": sent["content"][:-1]})


class ReplayWritesAnEvent(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        result = super().edit_knowledge_article(**sent)
        if result["replayed"]:
            self.save_article(KB, sent["article_id"], sent["content"])
        return result


class ReplayIsNotMarked(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        return {**super().edit_knowledge_article(**sent), "replayed": False}


class ReplayCitesAnotherVersion(Broken):
    def edit_knowledge_article(self, **sent: Any) -> JSON:  # type: ignore[override]
        result = super().edit_knowledge_article(**sent)
        if result["replayed"]:
            result["citation"]["updated_at"] = "2020-01-01T00:00:00.000000Z"
        return result


class ReplayIsRefused(Broken):
    def replay(self, resource_id: str, key: str, fingerprint: bytes) -> Optional[JSON]:
        return None

    def record_key(self, *given: Any) -> None:
        pass


class SavesAreLost(Broken):
    def save_article(self, base: str, article: str, content: str, title: Optional[str] = None) -> JSON:
        return self.save(base, article)


class UnpublishingIsLost(Broken):
    def unpublish_article(self, base: str, article: str) -> JSON:
        return self.save(base, article)


class WritesEventsAboutNobody(Broken):
    def save_article(self, base: str, article: str, content: str, title: Optional[str] = None) -> JSON:
        with self.write:
            self.append_event(base, "saved", "nobody", "2025-11-10T09:00:00.000000Z")
        return super().save_article(base, article, content, title)


@cache
def sound_counts(part: Any, argv: Tuple[str, ...]) -> report.Counts:
    counts: report.Counts = part(1, small(*argv))
    return counts


class BrokenStoresAreFoundOut(unittest.TestCase):
    def fails(self, rule: str, store: Any, part: Any, *argv: str) -> None:
        options = small(*argv)
        self.assertGreater(sound_counts(part, argv)[f"check: {rule}"], 0)
        with mock.patch("support_day.KnowledgeBaseStore", store), self.assertRaises(GroundTruthFailed) as failed:
            part(1, options)
        self.assertTrue(str(failed.exception).startswith(f"{rule}: "), str(failed.exception))

    def test_a_search_with_old_titles(self) -> None:
        self.fails(sim.TITLE_CHECK, StaleSearchTitle, sim.day_part)

    def test_a_search_that_loses_a_hit(self) -> None:
        self.fails(sim.TITLE_CHECK, SearchLosesAHit, sim.day_part)

    def test_a_read_of_old_text_or_title(self) -> None:
        for store in (ReadReturnsOldText, ReadReturnsOldTitle):
            for part in (sim.day_part, sim.edits_part, sim.control_part):
                self.fails(sim.READ_CHECK, store, part)

    def test_saves_that_are_lost(self) -> None:
        self.fails(sim.READ_CHECK, SavesAreLost, sim.day_part)

    def test_a_read_that_cites_an_old_version(self) -> None:
        self.fails(sim.ID_CHECKS["reread"], ReadCitesOldVersion, sim.day_part, "--questions", "9", "--retitle", "0")

    def test_an_unpublished_article_that_is_still_readable(self) -> None:
        self.fails(sim.ID_CHECKS["reread"], UnpublishedStaysReadable, sim.day_part)

    def test_a_poll_that_loses_an_event(self) -> None:
        self.fails(sim.LOG_CHECK, PollLosesAnEvent, sim.day_part)

    def test_a_poll_that_does_not_tell_what_is_gone(self) -> None:
        self.fails(sim.ID_CHECKS["poll"], PollCallsUnpublishingASave, sim.day_part)

    def test_a_poll_that_loses_an_event_about_an_uncited_article(self) -> None:
        self.fails(sim.LOG_CHECK, PollLosesAnEventThatNobodyAskedAbout, sim.day_part)

    def test_a_poll_that_gives_old_versions(self) -> None:
        self.fails(sim.ID_CHECKS["poll"], PollGivesOldVersions, sim.day_part)

    def test_a_poll_that_ends_too_early(self) -> None:
        self.fails(sim.ID_CHECKS["poll"], PollSaysThereIsNoMore, sim.control_part)

    def test_an_edit_that_ignores_the_version(self) -> None:
        self.fails(sim.EDIT_CHECK, EditIgnoresTheVersion, sim.edits_part)

    def test_an_edit_that_saves_and_says_conflict(self) -> None:
        self.fails(sim.EDIT_CHECK, EditSavesAndSaysConflict, sim.edits_part)

    def test_an_edit_that_does_not_tell_changed_from_gone(self) -> None:
        self.fails(sim.EDIT_CHECK, EditSaysConflictForGone, sim.edits_part, "--unpublish", "30")

    def test_an_edit_that_reaches_the_unpublished(self) -> None:
        self.fails(sim.EDIT_CHECK, EditReachesTheUnpublished, sim.edits_part, "--unpublish", "30")

    def test_a_retry_that_is_not_saved(self) -> None:
        self.fails(sim.RETRY_CHECK, EditRefusesRetries, sim.edits_part)
        self.fails(sim.RETRY_CHECK, EditTakesRetriesForReplays, sim.edits_part)

    def test_a_replay_that_writes_an_event(self) -> None:
        self.fails(sim.REPLAY_CHECK, ReplayWritesAnEvent, sim.edits_part)

    def test_a_replay_that_is_not_marked_or_not_the_first_result_or_refused(self) -> None:
        for store in (ReplayIsNotMarked, ReplayCitesAnotherVersion, ReplayIsRefused):
            self.fails(sim.REPLAY_CHECK, store, sim.edits_part)

    def test_a_text_that_is_not_as_it_was_saved_at_the_end(self) -> None:
        self.fails(support_day.END_CHECK, EditCutsTheText, sim.edits_part, "--questions", "1", "--saves", "0")
        self.fails(support_day.END_CHECK, SavesAreLost, sim.edits_part, "--questions", "1", "--saves", "5")

    def test_an_article_that_should_be_gone_at_the_end(self) -> None:
        argv = ("--questions", "1", "--saves", "5", "--unpublish", "100", "--retitle", "0")
        self.fails(support_day.END_CHECK, UnpublishingIsLost, sim.edits_part, *argv)

    def test_a_store_whose_own_invariants_do_not_hold(self) -> None:
        self.fails(report.STORE_CHECK, WritesEventsAboutNobody, sim.edits_part)
        for part in (sim.day_part, sim.control_part):  # there an event about nobody shows already in the log
            self.fails(sim.LOG_CHECK, WritesEventsAboutNobody, part)

    def test_every_rule_has_a_store_that_breaks_it(self) -> None:
        """The rules of this class's tests are all that a run prints."""
        broken = {
            sim.TITLE_CHECK, sim.READ_CHECK, sim.LOG_CHECK, *sim.ID_CHECKS.values(), sim.EDIT_CHECK, sim.RETRY_CHECK,
            sim.REPLAY_CHECK, support_day.END_CHECK, report.STORE_CHECK,
        }  # fmt: skip
        counts = [sound_counts(part, ()) for part in sim.SCRIPT.parts.values()]
        checked = {name for part_counts in counts for name in part_counts if name.startswith("check: ")}
        self.assertEqual(checked, {f"check: {rule}" for rule in broken})


class SmallWorlds(unittest.TestCase):
    def test_a_world_of_any_size_runs(self) -> None:
        for argv in (
            "--articles 2", "--articles 2 --questions 1 --saves 0", "--saves 0", "--questions 1", "--hours 1",
            "--articles 2 --unpublish 100 --retitle 0", "--unpublish 100 --retitle 0", "--retitle 100 --unpublish 0",
            "--retitle 0 --unpublish 0", "--articles 5 --topics 500", "--topics 1", "--zipf 0", "--zipf 5",
            "--topic-zipf 5", "--hours 9 --questions 3",
        ):  # fmt: skip
            with self.subTest(argv):
                text = output(*TINY, *argv.split(), "--seeds", "1")
                self.assertIn("Ground truth", text)
                self.assertNotIn("None", text)
                self.assertNotIn("nan", text)
                self.assertNotIn("published against", text.lower())

    def test_what_was_not_measured_is_n_a_not_zero(self) -> None:
        argv = (*TINY, "--saves", "0", "--questions", "1", "--seeds", "1")
        found, text = figures(*argv), output(*argv)
        for name in ("sim.staleness.title_check_percent", "sim.edits.4h.version_conflicts_percent"):
            self.assertIsNone(found[name], name)
        self.assertIn("of the questions and n/a of the saves", text)
        [row] = [line for line in text.split("\n") if line.strip().startswith("4 h ")]
        self.assertEqual(row.split()[2:], ["ours", "n/a", "n/a", "n/a"])

    def test_without_saves_nothing_goes_stale(self) -> None:
        found = figures(*TINY, "--saves", "0", "--seeds", "1")
        self.assertEqual(found["sim.staleness.hour2.stale"], 0)
        self.assertEqual(found["sim.control.stale"], 0)

    def test_a_day_of_other_hours_has_so_many_checks(self) -> None:
        found = figures(*TINY, "--hours", "5", "--seeds", "1-2")
        self.assertEqual(found["sim.cost.checks"], 10)
        self.assertIn("sim.staleness.hour5.stale", found)
        self.assertNotIn("sim.staleness.hour6.stale", found)


class TheScript(unittest.TestCase):
    def run_script(self, *argv: str, **environment: str) -> Tuple[int, bytes, bytes]:
        done = subprocess.run(
            [sys.executable, *argv], cwd=HERE, env={**os.environ, **environment}, capture_output=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def test_the_output_does_not_depend_on_processes_or_hash_seeds(self) -> None:
        argv = ("sim.py", *TINY, "--seeds", "1-2")
        outputs = {
            self.run_script(*argv, "--jobs", jobs, PYTHONHASHSEED=hash_seed)
            for jobs, hash_seed in (("1", "0"), ("2", "1"), ("2", "2"))
        }
        self.assertEqual(len(outputs), 1)
        [(code, text, errors)] = outputs
        self.assertEqual((code, errors), (0, b""))
        self.assertEqual(text.decode(), output(*TINY, "--seeds", "1-2"))

    def test_seeds_are_independent_and_add_up(self) -> None:
        one, two, both = (figures(*TINY, "--seeds", seeds) for seeds in ("1", "2", "1-2"))
        for name in ("sim.staleness.hour2.stale", "sim.cost.title.calls", "sim.edits.1h.attempts"):
            self.assertEqual((one[name] or 0) + (two[name] or 0), both[name])

    def test_merging_files_equals_one_run(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            paths = [os.path.join(directory, seeds) for seeds in ("1-2", "3")]
            for path, seeds in zip(paths, ("1-2", "3")):
                output(*TINY, "--seeds", seeds, "--json", path)
            self.assertEqual(output("--merge", *paths), output(*TINY, "--seeds", "1-3"))
            merged, whole = figures("--merge", *paths), figures(*TINY, "--seeds", "1-3")
        self.assertEqual(merged.keys(), whole.keys())
        for name, value in merged.items():
            self.assertAlmostEqual(value or 0, whole[name] or 0, places=9, msg=name)

    def test_a_wrong_option_or_value_gets_one_line_and_code_2(self) -> None:
        for argv in (
            "--articles 1", "--articles 0", "--articles -5", "--articles many", "--articles 1e3", "--articles 100001",
            "--questions 0", "--questions 1.5", "--saves -1", "--saves 100001", "--hours 0", "--hours 169",
            "--hours 2.5", "--zipf -0.1", "--zipf 5.1", "--zipf nan", "--zipf inf", "--retitle 100.1", "--retitle x",
            "--unpublish -1", "--unpublish 101", "--retitle 60 --unpublish 60", "--unpublish 100", "--topics 0",
            "--topics 10001", "--topic-zipf 9", "--article 5", "--seeds 5-1", "--seeds x", "--jobs 0", "stray",
        ):  # fmt: skip
            with self.subTest(argv):
                with contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit) as ended:
                    output(*argv.split(), "--seeds", "1") if "--seeds" not in argv else output(*argv.split())
                self.assertEqual(ended.exception.code, 2)
                self.assertRegex(errors.getvalue(), r"\Asim\.py: .+\n\Z")

    def test_a_failed_check_stops_the_run_under_python_o_too(self) -> None:
        code = (
            "from unittest import mock; from tests.test_sim import SMALL, PollLosesAnEvent; import command_line, sim\n"
            "mock.patch('support_day.KnowledgeBaseStore', PollLosesAnEvent).start()\n"
            "command_line.main(sim.SCRIPT, [*SMALL, '--seeds', '1', '--jobs', '1'])"
        )
        returned, text, errors = self.run_script("-O", "-c", code)
        self.assertEqual((returned, text), (1, b""))
        self.assertIn(b"sim.py: ground truth failed: the log holds one event for each save, and no other: ", errors)
        self.assertEqual(errors.count(b"\n"), 1)

    def test_a_reader_that_goes_away_is_no_error(self) -> None:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, "sim.py", *TINY, "--seeds", "1", "--jobs", "1"],
            cwd=HERE, stdout=write, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_help_shows_examples_that_parse(self) -> None:
        code, text, _ = self.run_script("sim.py", "--help")
        self.assertEqual(code, 0)
        examples: List[str] = [
            line.split("sim.py ")[1] for line in text.decode().split("\n") if "python sim.py" in line
        ]
        self.assertGreater(len(examples), 2)
        for example in examples:
            command_line.make_parser(sim.SCRIPT).parse_args(example.split())


if __name__ == "__main__":
    unittest.main()
