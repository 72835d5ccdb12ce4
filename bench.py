"""What a tool call costs beside the same SQL written by hand, and whether it stays so as the tables grow.

Glossary
    floor     bench_floor.py: the same statements by hand, in one function, without any of a store's safety
    block     some calls of one side in a row, timed together; what they need is made ready before the clock starts
    repeat    one block of ours and one of the other side, taking turns at going first: a slow machine slows both
    ratio     time of our block by time of the other, in one repeat; half of the repeats lie between the quartiles
    target    the ratio that the design allows: met or missed by the median. A miss is no error of the program

Times in µs are medians per call; they depend on the machine, the ratios much less. All is measured in one run.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from functools import lru_cache, partial
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import bench_floor as floor
from arguments import JSON
from bug_tracker import CHANNEL, FIELDS, fill, intentions, item_id, new_bug, new_bugs, tracker
from command_line import OneLineParser, whole, write_text
from compare import FIGURES, PUBLISHED
from field_schema import Schema
from kb_store import KnowledgeBaseStore
from record_store import RecordStore
from report import number, pick, rng
from support_day import draw_rank, made_up_name, zipf
from tool_store import ToolStore
from triage import Unvalidated

KB = "kb"
FOUND = 20  # results of a search: as many as the tool gives
EDITS = 40  # calls in a block of edits
SLOW = 7  # repeats at most where a call takes long
REPLAY = 80 / 60  # 60,000 a second where the floor does 80,000
FLAT = 1.1  # what does not grow: the rest is the spread of the measurement
NUMBERS = itertools.count(1)  # of idempotency keys
Block = Callable[[], Sequence[Any]]  # () -> the calls of one repeat, made ready: partial(function, arguments)
# Memory is measured in processor time, which other programs disturb less; files and scripts by the wall clock.
WALL = time.perf_counter
CPU = time.process_time if time.get_clock_info("process_time").resolution < 1e-6 else WALL


class Bench:
    """Measures, and keeps what it has measured as cells of the report's table."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.rows: List[List[str]] = []
        self.fillings: List[str] = []

    def compare(
        self, what: str, ours: Block, beside: str, other: Block, target: Optional[float] = None,
        clock: Callable[[], float] = CPU, repeats: int = 0,
    ) -> None:  # fmt: skip
        times: Tuple[List[float], List[float]] = ([], [])
        gc.collect()
        gc.disable()  # it would put one side's garbage on the other's bill
        for repeat in range(-1, min(repeats or self.repeats, self.repeats)):
            for side in (0, 1) if repeat % 2 else (1, 0):
                microseconds = 1e6 * time_per_call((ours, other)[side](), clock)
                if repeat >= 0:  # the first one warms up
                    times[side].append(microseconds)
        gc.enable()
        low, median, high = statistics.quantiles([a / b for a, b in zip(*times)], n=4)
        medians = [digits(statistics.median(of_side)) for of_side in times]
        judged = verdict(median, target)
        self.rows.append([what, beside, digits(median), f"{digits(low)}-{digits(high)}", *judged, *medians])
        progress(" | ".join(self.rows[-1]))

    def filled(self, what: str, count: int, begin: float) -> None:
        seconds = CPU() - begin
        self.fillings.append(f"{what}: {number(seconds, 1)} s, {number(1e6 * seconds / count)} µs each")
        progress(self.fillings[-1])


def time_per_call(calls: Sequence[Any], clock: Callable[[], float]) -> float:
    begin = clock()
    for call in calls:
        call()
    return (clock() - begin) / len(calls)


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


# --- knowledge base ---------------------------------------------------------------------------------------------------

STREAM = 1_000_000  # words in the text that articles are cut from
PIECES, PIECE = 5, 42  # an article is so many pieces of so many words: some 1.5 KB
VOCABULARY = [made_up_name(310_000 + rank).lower() for rank in range(30_000)]  # the commonest first
COMMON, MEDIUM = VOCABULARY[3], VOCABULARY[200:2_000]  # a word in nearly all articles, and words in 1 to 10% of them


@lru_cache(maxsize=1)
def stream() -> List[str]:
    """A long text: words by Zipf's law."""
    draw, popularity = rng(1, "stream").random, zipf(len(VOCABULARY), 1.0)
    return [VOCABULARY[draw_rank(popularity, draw())] for _ in range(STREAM)]


def texts(count: int) -> Iterator[Tuple[str, str]]:
    """(title, content) of each article, which begins with a name that no other has."""
    draw, words = rng(1, "texts").random, stream()
    for index in range(count):
        starts = [int(draw() * (STREAM - PIECE)) for _ in range(PIECES)]
        pieces = [" ".join(words[start : start + PIECE]) for start in starts]
        name = made_up_name(index)
        yield f"{name} {' '.join(words[starts[0] : starts[0] + 5])}", f"{name}: {'. '.join(pieces)}"


def queries(count: int) -> List[List[str]]:
    """Three words each: a name that one article has, and two of medium rank."""
    source = rng(2, "queries")
    names = [made_up_name(int(source.random() * count)).lower() for _ in range(10)]
    return [[name, pick(source, MEDIUM), pick(source, MEDIUM)] for name in names]


def knowledge_base(count: int, path: str = ":memory:") -> KnowledgeBaseStore:
    store = KnowledgeBaseStore(path)
    store.create_knowledge_base(KB)
    for index, (title, content) in enumerate(texts(count)):
        store.create_article(KB, title, content, f"a{index}")
    search(store, ["first"])  # brings the index up to date
    return store


def search(store: KnowledgeBaseStore, words: Sequence[str]) -> JSON:
    return store.call("search_knowledge_base", {"knowledge_base_id": KB, "query": " ".join(words), "limit": FOUND})


def measure_article_edits(bench: Bench, count: int, directory: str) -> None:
    with closing(knowledge_base(count)) as store:
        ours, by_hand = article_edits(store, tool_edit), article_edits(store, edit_by_hand)
        bench.compare("edit an article, in memory", ours, "by hand", by_hand, 1.6)
        measure_replay(bench, ours, by_hand)
    with closing(knowledge_base(count, os.path.join(directory, "kb"))) as store:
        # Long enough for the disk's part, which comes once in some hundred edits.
        ours, by_hand = article_edits(store, tool_edit, count), article_edits(store, edit_by_hand, count)
        bench.compare("edit an article, on a WAL file", ours, "by hand", by_hand, 1.3, WALL)
    with closing(knowledge_base(count)) as store:
        store.db.executescript(floor.FTS5)
        ours, by_hand = article_edits(store, tool_edit), article_edits(store, partial(edit_by_hand, with_fts5=True))
        bench.compare("edit an article, in memory", ours, "by hand, FTS5 kept in step", by_hand)
        ours, by_hand = article_edits(store, edit_and_find), article_edits(store, edit_and_find_by_hand)
        bench.compare("edit an article and find it", ours, "by hand, FTS5 kept in step", by_hand, 1.1)


def article_edits(store: KnowledgeBaseStore, act: Callable[..., Any], count: int = EDITS) -> Block:
    """Each block edits the first so many articles at the versions that they have by then."""

    def block() -> List[Any]:
        rows = store.db.execute("SELECT article_id, content, updated_at FROM article LIMIT ?", (count,)).fetchall()
        # The new text has the same length and, but for two that are cut, the same words.
        return [
            partial(act, store, article_id, content[300:] + content[:300], version, f"key-{next(NUMBERS)}")
            for article_id, content, version in rows
        ]

    return block


def tool_edit(store: KnowledgeBaseStore, article_id: str, content: str, version: str, key: str) -> JSON:
    arguments = {"knowledge_base_id": KB, "article_id": article_id, "content": content}
    return store.call("edit_knowledge_article", {**arguments, "expected_version": version, "idempotency_key": key})


def edit_by_hand(store: KnowledgeBaseStore, *arguments: str, with_fts5: bool = False) -> JSON:
    return floor.edit_article(store.db, KB, *arguments, now=time.time(), with_fts5=with_fts5)


def edit_and_find(store: KnowledgeBaseStore, article_id: str, *arguments: str) -> JSON:
    tool_edit(store, article_id, *arguments)
    return search(store, [name_of(article_id)])


def edit_and_find_by_hand(store: KnowledgeBaseStore, article_id: str, *arguments: str) -> JSON:
    edit_by_hand(store, article_id, *arguments, with_fts5=True)
    return floor.search_fts5(store.db, KB, FOUND, [name_of(article_id)])


def name_of(article_id: str) -> str:
    """The word that no other article has."""
    return made_up_name(int(article_id[1:])).lower()


def measure_replay(bench: Bench, ours: Block, by_hand: Block) -> None:
    """One edit on each side, sent over and over. By hand it is hashed too, or it could not be told from another."""
    first, first_by_hand = ours()[0], by_hand()[1]  # of two articles or items, or the second would be a conflict

    def hashed() -> None:
        floor.fingerprint(first_by_hand.args[1:])
        first_by_hand()

    again, again_by_hand = [first] * EDITS, [hashed] * EDITS
    bench.compare("the same edit again", lambda: again, "by hand, call hashed", lambda: again_by_hand, REPLAY)


def cycle(act: Callable[[Any], Any], things: Sequence[Any]) -> Block:
    """act(thing) for each of the things in turn."""
    calls = [partial(act, thing) for thing in things]
    return lambda: calls


def tool(store: ToolStore, name: str, argument: str, fixed: JSON) -> Callable[[Any], JSON]:
    """A tool as a function of one of its arguments."""
    return lambda value: store.call(name, {**fixed, argument: value})


def positions(count: int) -> List[int]:
    """Fifty places spread over so many, ends left out."""
    return [(2 * place + 1) * count // 100 for place in range(50)]


def measure_article_reads(bench: Bench, sizes: Sequence[int]) -> None:
    polls: List[Block] = []
    with ExitStack() as open_stores:
        for count in sizes:
            begin = CPU()
            store = open_stores.enter_context(closing(knowledge_base(count)))
            bench.filled(f"{count:,} articles created one by one, then indexed by the first search", count, begin)
            store.db.executescript(floor.FTS5)
            measure_search(bench, store, count)
            polls.append(measure_poll(bench, store, count))
            if len(polls) > 1:
                before = f"log of {sizes[len(polls) - 2]:,}"
                bench.compare(f"poll 100 events, log of {count:,}", polls[-1], before, polls[-2], FLAT)
        measure_read(bench, store, sizes[-1])


def measure_search(bench: Bench, store: KnowledgeBaseStore, count: int) -> None:
    ours = partial(search, store)
    fts5, scan = (partial(by_hand, store.db, KB, FOUND) for by_hand in (floor.search_fts5, floor.search_scan))
    asked = queries(count)
    common = [[COMMON, *words[:2]] for words in asked[:2]]
    what = f"search {count:,} articles"
    bench.compare(f"{what}, 3 words", cycle(ours, asked), "FTS5, bm25", cycle(fts5, asked), 1.2, repeats=SLOW)
    bench.compare(f"{what}, a word in most", cycle(ours, common), "FTS5, bm25", cycle(fts5, common), 1.2, repeats=SLOW)
    target = 0.05 if count >= 100_000 else None
    bench.compare(f"{what}, 3 words", cycle(ours, asked[:2]), "LIKE scan", cycle(scan, asked[:2]), target, repeats=SLOW)


def measure_poll(bench: Bench, store: KnowledgeBaseStore, count: int) -> Block:
    after = positions(count - 100)  # with 100 events to come from each
    fixed = {"resource_type": "knowledge_base", "resource_id": KB}
    ours = cycle(tool(store, "poll_resource_events", "after_sequence", fixed), after)
    by_hand = cycle(partial(floor.poll, store.db, KB), after)
    bench.compare(f"poll 100 events, log of {count:,}", ours, "by hand", by_hand, 1.3)
    return ours


def measure_read(bench: Bench, store: KnowledgeBaseStore, count: int) -> None:
    articles = [f"a{place}" for place in positions(count)] * 4
    ours = cycle(tool(store, "read_knowledge_article", "article_id", {"knowledge_base_id": KB}), articles)
    by_hand = cycle(partial(floor.read_article, store.db, KB), articles)
    bench.compare(f"read one of {count:,} articles", ours, "by hand", by_hand)


# --- records ----------------------------------------------------------------------------------------------------------


def measure_item_edits(bench: Bench, count: int) -> None:
    with closing(tracker(1, count)) as store, closing(tracker(1, count, store_class=Unvalidated)) as unvalidated:
        ours, by_hand = item_edits(store, tool_item_edit), item_edits(store, item_edit_by_hand)
        bench.compare("edit 6 fields of an item, in memory", ours, "by hand", by_hand, 1.6)
        stubbed = item_edits(unvalidated, tool_item_edit)
        bench.compare("edit 6 fields of an item, in memory", ours, "validate() replaced by a stub", stubbed, 1.25)
        measure_replay(bench, ours, by_hand)
    ours, bare = (cycle(check, [floor.VALUES] * 100) for check in (Schema(floor.ALL_TYPES, 1).problems, floor.all_fit))
    bench.compare("check a value of each of 15 types", ours, "bare checks", bare, 1.5)


def item_edits(store: RecordStore, act: Callable[..., Any]) -> Block:
    """Each block edits EDITS items at the versions that they have by then."""

    def block() -> List[Any]:
        rows = store.db.execute("SELECT item_id, version FROM record_item LIMIT ?", (EDITS,)).fetchall()
        values = six_values()[next(NUMBERS) % 100 :]
        return [
            partial(act, store, item_id, six, version, f"key-{next(NUMBERS)}")
            for (item_id, version), six in zip(rows, values)
        ]

    return block


@lru_cache(maxsize=1)
def six_values() -> List[JSON]:
    """What the triage means, with a number that is let in where it means one that is not."""
    meant = intentions(1, new_bugs(1, 200)).values()
    return [{key: 13 if said.value is None else said.value for key, said in each.items()} for each in meant]


def tool_item_edit(store: RecordStore, item_id: str, values: JSON, version: int, key: str) -> JSON:
    arguments = {"record_channel_id": CHANNEL, "item_id": item_id, "values": values}
    return store.call("edit_record_item", {**arguments, "expected_version": version, "idempotency_key": key})


def item_edit_by_hand(store: RecordStore, item_id: str, values: JSON, version: int, key: str) -> JSON:
    return floor.edit_item(store.db, CHANNEL, item_id, values, version, key, time.time())


def measure_item_reads(bench: Bench, sizes: Sequence[int]) -> None:
    for count in sizes:
        begin = CPU()
        with closing(RecordStore()) as store:
            fill(store, (new_bug(1, place) for place in range(1, count + 1)))
            bench.filled(f"{count:,} items created one by one", count, begin)
            measure_pages(bench, store, count)
            if count == sizes[-1]:
                measure_item_read(bench, store, count)


def measure_pages(bench: Bench, store: RecordStore, count: int) -> None:
    """Near the top, the cursor is one of the newest items; deep, one with little more than a page to go."""
    ours = tool(store, "list_record_items", "before_id", {"record_channel_id": CHANNEL})
    schema = Schema(FIELDS, 1).page_text
    by_hand = partial(floor.list_items, store.db, CHANNEL, schema)
    by_offset = partial(floor.list_items_by_offset, store.db, CHANNEL, schema)
    top_ids, deep_ids = ([item_id(first + place) for place in range(10)] for first in (count - 9, 60))
    top, deep = cycle(ours, top_ids), cycle(ours, deep_ids)
    deep_offsets = [count - 59 - place for place in range(10)]
    what = f"page of 50 of {count:,} items"
    bench.compare(f"{what}, near the top", top, "by hand", cycle(by_hand, top_ids), 1.5)
    bench.compare(f"{what}, deep", deep, "by hand", cycle(by_hand, deep_ids), 1.5)
    bench.compare(f"{what}, deep", deep, "near the top", top, FLAT)
    bench.compare(f"{what}, deep", deep, "the same page by OFFSET", cycle(by_offset, deep_offsets))


def measure_item_read(bench: Bench, store: RecordStore, count: int) -> None:
    items = [item_id(place) for place in positions(count)] * 4
    ours = cycle(tool(store, "read_record_item", "item_id", {"record_channel_id": CHANNEL}), items)
    by_hand = cycle(partial(floor.read_item, store.db, CHANNEL, time.time()), items)
    bench.compare(f"read one of {count:,} items", ours, "by hand", by_hand)


# --- the scripts ------------------------------------------------------------------------------------------------------

STARTS = 15  # of each script
SCRIPTS = {"sim": 1.5, "triage": 2.0, "pagination": 2.0}  # seconds at most


def script_rows(starts: int, seeds: str) -> List[List[str]]:
    """The scripts take turns, so that a slow spell of the machine falls on each of them."""
    turns = [[run_script(name, seeds) for name in SCRIPTS] for _ in range(starts)]
    rows = []
    for (name, target), seconds in zip(SCRIPTS.items(), zip(*turns)):
        median, spread = statistics.median(seconds), f"{min(seconds):.2f}-{max(seconds):.2f}"
        published = str(PUBLISHED.get(f"{name}.runtime_seconds", ""))
        rows.append([f"{name}.py --seeds {seeds}", number(median, 2), spread, published, *verdict(median, target)])
    return rows


def run_script(name: str, seeds: str) -> float:
    """Seconds from start to end. Modules stay compiled from one run to the next, as Python leaves them by default."""
    command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py"), "--seeds", seeds]
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    return time.perf_counter() - begin


# --- the report -------------------------------------------------------------------------------------------------------

COLUMNS = ["call", "beside", "ratio", "quartiles", "target", "", "µs", "µs beside"]
SCRIPT_COLUMNS = ["script", "seconds", "from-to", "published", "target", ""]


def digits(value: float) -> str:
    """Three digits that count: 0.0123, 1.23, 12.3, 1,234."""
    decimals = 4 if value < 0.1 else 2 if value < 10 else 1 if value < 100 else 0
    return number(value, decimals)


def verdict(value: float, target: Optional[float]) -> List[str]:
    return [f"<= {target:.3g}", "met" if value <= target else "missed"] if target else ["", ""]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown, aligned to be read as it is too."""
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def report(bench: Bench, starts: int, seeds: str) -> str:
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"""# What a call costs beside the same work by hand

{machine}. A ratio is the time of a call by the time of what stands beside it: the median and
the quartiles of {bench.repeats} repeats ({min(SLOW, bench.repeats)} where a call takes long).

{table(COLUMNS, bench.rows)}

Whole scripts, started as a user does: the median of {starts}. Published: {FIGURES["sim.runtime_seconds"]["note"]}.

{table(SCRIPT_COLUMNS, script_rows(starts, seeds))}

Filling:

""" + "".join(f"- {line}\n" for line in bench.fillings)


def main(argv: Optional[Sequence[str]] = None) -> None:
    arguments = make_parser().parse_args(argv)
    sizes = [400] if arguments.quick else arguments.rows
    bench = Bench(7 if arguments.quick else arguments.repeats)
    try:
        with tempfile.TemporaryDirectory() as directory:
            measure_article_edits(bench, sizes[0], directory)
        measure_item_edits(bench, sizes[0])
        measure_article_reads(bench, sizes)
        measure_item_reads(bench, sizes)
        text = report(bench, STARTS if bench.repeats > 9 else 1, arguments.seeds)
    except KeyboardInterrupt:
        raise SystemExit("bench.py: interrupted") from None
    for path in ["-", arguments.output] if arguments.output else ["-"]:
        write_text(path, text)


def make_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="bench.py", description=(__doc__ or "").split("\n", 1)[0])
    sizes = "400,10000,100000"
    parser.add_argument("--rows", type=size_list, default=sizes, metavar="N,N", help=f"of the tables ({sizes})")
    parser.add_argument("--repeats", type=whole(2, 1_000), default=51, metavar="N", help="of each pair (default: 51)")
    parser.add_argument("--seeds", default="1-5", help="that the scripts run with (default: 1-5)")
    parser.add_argument("--quick", action="store_true", help="400 rows and 7 repeats: a first look, in seconds")
    parser.add_argument("--output", metavar="FILE", help="write the tables to a file too")
    return parser


def size_list(text: str) -> List[int]:
    return sorted({whole(150, 300_000)(size) for size in text.split(",")})


if __name__ == "__main__":
    main()
