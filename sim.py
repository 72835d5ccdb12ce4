"""A seeded support day: how fast citations go stale, what checking them costs, how often a late edit is refused.

Glossary
    answer        a question answered from two articles, with a citation of each
    citation      {knowledge_base_id, article_id, updated_at}; `Cited` is one with the title that was shown
    stale         the cited article has changed since (changed) or is no longer published (gone)
    check         once an hour the agent asks of all citations given so far which are stale, in three ways
    ground truth  `support_day.Truth`: the simulation's own copy of every article; it never asks a store
    late edit     an edit that names the version of a citation given some time before

Source: the first post. `python sim.py --seeds 1-5` prints its tables. Each part plays a day of its own on a store of
its own: the day itself, the control (the same saves spread evenly), and the day with late edits.
"""

from __future__ import annotations

import argparse
import heapq
from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

from arguments import JSON, ToolError
from command_line import main
from report import Counts, GroundTruth, Script, size
from sim_report import DELAYS, NOTES, SWEEP, figures, tables
from support_day import (
    HOUR,
    KB,
    Day,
    Question,
    Save,
    Stale,
    Version,
    World,
    add_options,
    article_arguments,
    article_id,
    article_rank,
    plan_day,
    question_text,
    zipf,
)

# What each ground-truth check says when it passes.
ID_CHECKS = {
    "reread": "re-reading finds exactly the stale citations",
    "poll": "polling finds exactly the stale citations",
}
LOG_CHECK = "the log holds one event for each save, and no other"
TITLE_CHECK = "the title check finds exactly the renamed and the gone"
READ_CHECK = "a read returns the text that was last saved"
EDIT_CHECK = "a late edit is saved, in conflict or gone exactly as the ground truth has it"
RETRY_CHECK = "after a conflict, a fresh read and the new version save the edit"
REPLAY_CHECK = "the same call again returns the first result marked as a replay and writes no event"


class Cited(NamedTuple):
    article_id: str
    updated_at: str
    title: str


class Agent:
    """The scripted agent. It knows only what the tools return, and keeps citations and one integer."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.answers: List[Tuple[Cited, ...]] = []
        self.costs: Dict[str, List[int]] = {way: [0, 0] for way in ("title", "reread", "poll", "moved")}  # calls, bytes
        self.cursor: int = world.store.call("poll_resource_events", poll_arguments(0, limit=1))["latest_sequence"]
        self.last_change: Dict[str, str] = {}  # of each article in the events seen: its latest version
        self.gone: Set[str] = set()
        self.events: Counter[str] = Counter()  # how many of each article the log has shown

    def ask(self, way: str, tool: str, arguments: JSON) -> JSON:
        """One call of a check, counted with the bytes that come back (JSON in UTF-8), a refusal's too."""
        try:
            answer = self.world.store.call(tool, arguments)
        except ToolError as refusal:
            answer = refusal.payload
        self.costs[way][0] += 1
        self.costs[way][1] += size(answer)
        return answer

    def answer(self, question: Question) -> JSON:
        """Searches, reads the first two results and cites both. Returns the first article read; {} if none is left."""
        world = self.world
        results = search(world, question_text(question.rank, world.day.topics[question.rank]))
        identifiers = [result["citation"]["article_id"] for result in results]
        if len(results) < 2:  # a topic with one article left: any other article must do, so that an answer has two
            identifiers += [result["citation"]["article_id"] for result in search(world, "support team")]
        read = []
        for identifier in list(dict.fromkeys(identifiers))[:2]:
            article = world.store.call("read_knowledge_article", article_arguments(identifier))
            rank = article_rank(article["citation"]["article_id"])
            text = (article["title"], article["content"])
            world.checks.equal(READ_CHECK, text, (world.truth.titles[rank], world.truth.contents[rank]))
            world.truth.cited[version_of(article)] = (rank, world.truth.saves[rank], article["title"])
            read.append(article)
        self.answers.append(tuple(Cited(*version_of(article), article["title"]) for article in read))
        return read[0] if read else {}

    def citations(self) -> List[Cited]:
        return [cited for answer in self.answers for cited in answer]

    def check_by_title(self) -> Set[Version]:
        """The versions whose title no longer finds their article under that title."""
        citations = self.citations()
        found = set()
        for title in dict.fromkeys(cited.title for cited in citations):
            answer = self.ask("title", "search_knowledge_base", {"knowledge_base_id": KB, "query": title})
            found |= {(hit["citation"]["article_id"], hit["title"]) for hit in answer["results"]}
        return {(c.article_id, c.updated_at) for c in citations if (c.article_id, c.title) not in found}

    def check_by_rereading(self) -> Stale:
        citations = self.citations()
        now = {}
        for identifier in dict.fromkeys(cited.article_id for cited in citations):
            article = self.ask("reread", "read_knowledge_article", article_arguments(identifier))
            now[identifier] = article["citation"]["updated_at"] if "citation" in article else None
        return {
            (c.article_id, c.updated_at): "gone" if now[c.article_id] is None else "changed"
            for c in citations
            if now[c.article_id] != c.updated_at
        }

    def check_by_polling(self) -> Stale:
        """Follows the log from the cursor. Then it reads again what is cited and has moved, to know the new text."""
        citations = self.citations()
        moved: Dict[str, None] = {}
        more = True
        while more:
            page = self.ask("poll", "poll_resource_events", poll_arguments(self.cursor))
            for event in page["events"]:
                moved[event["article_id"]] = None
                self.events[event["article_id"]] += 1
                self.last_change[event["article_id"]] = event["updated_at"]
                if event["type"] == "unpublished":
                    self.gone.add(event["article_id"])
            self.cursor, more = page["next_after_sequence"], page["has_more"]
        cited = {c.article_id for c in citations}
        for identifier in moved:
            if identifier in cited:
                self.ask("moved", "read_knowledge_article", article_arguments(identifier))
        return {
            (c.article_id, c.updated_at): "gone" if c.article_id in self.gone else "changed"
            for c in citations
            if self.last_change.get(c.article_id, c.updated_at) > c.updated_at
        }


# --- the three parts of a seed ----------------------------------------------------------------------------------------


def day_part(seed: int, options: argparse.Namespace) -> Counts:
    """The day with a check every hour."""
    return play_day(seed, options, plan_day(seed, options), "", range(1, options.hours + 1))


def control_part(seed: int, options: argparse.Namespace) -> Counts:
    """The same day with the saves spread evenly, checked once, at its end."""
    return play_day(seed, options, plan_day(seed, options, even_saves=True), "control.", [options.hours])


def play_day(seed: int, options: argparse.Namespace, day: Day, prefix: str, hours: Sequence[int]) -> Counts:
    checks = GroundTruth()
    world = World(seed, day, checks)
    agent = Agent(world)
    counts: Counts = {"zipf_top10_percent": 100 * zipf(options.articles, options.zipf)[:10][-1]} if not prefix else {}
    for seconds, what in timeline(day, hours):
        world.now = seconds
        if isinstance(what, Save):
            world.save(what)
        elif isinstance(what, Question):
            agent.answer(what)
        else:
            counts.update(hourly_check(agent, f"{prefix}hour{what}."))
    world.finish()
    if not prefix:
        counts["questions_top10"] = sum(question.rank < 10 for question in day.questions)
        counts["saves_top10"] = sum(save.rank < 10 for save in day.saves)
        counts["questions"], counts["saves"] = len(day.questions), len(day.saves)
    return {**counts, **checks.counts()}


def timeline(day: Day, hours: Sequence[int]) -> Iterator[Tuple[float, Any]]:
    """(seconds, a Question, a Save or the hour of a check), by time; a check comes after all else at its hour."""
    moments = [(q.seconds, 0, q) for q in day.questions] + [(s.seconds, 1, s) for s in day.saves]
    for seconds, _, what in sorted(moments + [(hour * HOUR, 2, hour) for hour in hours]):
        yield seconds, what


def hourly_check(agent: Agent, name: str) -> Counts:
    """Checks all citations in three ways, holds each against the ground truth, and counts what is stale."""
    truth, checks = agent.world.truth, agent.world.checks
    stale, lost = truth.stale(), truth.renamed_or_gone()
    agent.costs = {way: [0, 0] for way in agent.costs}
    by_title = agent.check_by_title()
    checks.equal(TITLE_CHECK, by_title, lost)
    checks.equal(ID_CHECKS["reread"], agent.check_by_rereading(), stale)
    checks.equal(ID_CHECKS["poll"], agent.check_by_polling(), stale)
    saves = {article_id(rank): times for rank, times in enumerate(truth.saves) if times}
    checks.equal(LOG_CHECK, dict(agent.events), saves)
    is_stale = [[(cited.article_id, cited.updated_at) in stale for cited in answer] for answer in agent.answers]
    counts: Counts = {
        name + "checks": 1,
        name + "answers": len(agent.answers),
        name + "citations": len(agent.citations()),
        name + "distinct": len(truth.cited),
        name + "stale": len(stale),
        name + "gone": sum(why == "gone" for why in stale.values()),
        name + "given_stale": sum(map(sum, is_stale)),
        name + "first_stale": sum(answer[0] for answer in is_stale if answer),
        name + "answers_stale": sum(map(any, is_stale)),
        name + "title_check_found": len(by_title),
    }
    for way, (calls, returned) in agent.costs.items():
        counts[f"{name}{way}.calls"], counts[f"{name}{way}.bytes"] = calls, returned
    return counts


def edits_part(seed: int, options: argparse.Namespace) -> Counts:
    """The day with a late edit after each answer; the delays take turns. Edits due after the day's end still happen."""
    checks = GroundTruth()
    world = World(seed, plan_day(seed, options), checks)
    agent = Agent(world)
    counts: Counts = {}
    due: List[Tuple[float, int, str, JSON]] = []
    moments = list(timeline(world.day, []))
    for seconds, what in [*moments, (float("inf"), None)]:
        while due and due[0][0] <= seconds:
            world.now, turn, delay, article = heapq.heappop(due)
            for name in late_edit(world, f"{seed}:{turn}", article):
                counts[f"edits.{delay}.{name}"] = counts.get(f"edits.{delay}.{name}", 0) + 1
        if isinstance(what, Save):
            world.now = seconds
            world.save(what)
        elif isinstance(what, Question):
            world.now = seconds
            turn = len(agent.answers)
            delay, _, wait = DELAYS[turn % len(DELAYS)]
            article = agent.answer(what)
            if article:
                heapq.heappush(due, (seconds + wait, turn, delay, article))
    world.finish()
    return {**counts, **checks.counts()}


def late_edit(world: World, key: str, article: JSON) -> List[str]:
    """Edits an article with the version of its citation. Returns what to count: attempts, and how it went."""
    truth, checks = world.truth, world.checks
    identifier, updated_at = version_of(article)
    rank, saves_then, _ = truth.cited[identifier, updated_at]
    expected = "saved" if truth.saves[rank] == saves_then else "version_conflict"
    expected = expected if truth.published[rank] else "not_found"
    note = f"\n\nAnswered from this article, case {key}."
    call = edit_arguments(identifier, article["content"] + note, updated_at, f"{key}:first")
    result = try_edit(world, call)
    outcome = result.get("error", "saved")
    checks.equal(EDIT_CHECK, outcome, expected)
    tally = ["attempts"]
    if outcome == "not_found":
        tally.append("no_longer_published")
    elif outcome == "version_conflict":
        tally.append("version_conflicts")
        fresh = world.store.call("read_knowledge_article", article_arguments(identifier))
        retry = edit_arguments(identifier, fresh["content"] + note, version_of(fresh)[1], f"{key}:retry")
        saved = try_edit(world, retry)
        checks.equal(RETRY_CHECK, saved.get("replayed"), False)
        tally.append("retries_saved")
    else:
        events = world.store.call("poll_resource_events", poll_arguments(0, limit=1))["latest_sequence"]
        again = try_edit(world, call)
        events_after = world.store.call("poll_resource_events", poll_arguments(0, limit=1))["latest_sequence"]
        checks.equal(REPLAY_CHECK, (again, events_after), ({**result, "replayed": True}, events))
        tally.append("replays_sent")
        if again.get("replayed"):
            tally.append("replays_marked")
    if outcome != "not_found":  # saved at once, or after the retry
        truth.saves[rank] += 1
        truth.contents[rank] += note
    return tally


def try_edit(world: World, arguments: JSON) -> JSON:
    try:
        return world.store.call("edit_knowledge_article", arguments)
    except ToolError as refusal:
        return refusal.payload


# --- calls ------------------------------------------------------------------------------------------------------------


def version_of(article: JSON) -> Version:
    return article["citation"]["article_id"], article["citation"]["updated_at"]


def poll_arguments(after: int, limit: int = 100) -> JSON:
    return {"resource_type": "knowledge_base", "resource_id": KB, "after_sequence": after, "limit": limit}


def edit_arguments(identifier: str, content: str, version: str, key: str) -> JSON:
    arguments = {"content": content, "expected_version": version, "idempotency_key": key}
    return {**article_arguments(identifier), **arguments}


def search(world: World, query: str) -> List[JSON]:
    results: List[JSON] = world.store.call("search_knowledge_base", {"knowledge_base_id": KB, "query": query})[
        "results"
    ]
    return results


# --- the command line -------------------------------------------------------------------------------------------------


SCRIPT = Script(
    name="sim",
    about=(__doc__ or "").split("\n", 1)[0],
    examples="  python sim.py --seeds 1-5\n"
    "  python sim.py --articles 2000 --questions 500 --saves 80\n"
    "  python sim.py --seeds 1-20 --jobs 4 --json day.json\n"
    "  python sim.py --sweep saves=50,100,300,1000 hours=4,8\n"
    "  python sim.py --replicates 200",
    parts={"day": day_part, "edits": edits_part, "control": control_part},
    figures=figures,
    tables=tables,
    add_options=add_options,
    inferred=("topics", "topic_zipf"),
    sweep=SWEEP,
    notes=NOTES,
)

if __name__ == "__main__":
    main(SCRIPT)
