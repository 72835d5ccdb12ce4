"""What a page weighs, what an offset loses while people work, and how an agent catches up from the event log.

Glossary
    page       at most 50 previews, newest first, and the schema
    walk       a whole pass over the pages; people change the channel before each page but the first
    paging     how the next page is named: offset (so many items from the top) or before_id (older than this item)
    catch-up   finding what changed since the last walk, as {item_id: created, updated or deleted}
    model      the simulation's own list of the channel's items, kept apart from the store: the ground truth

Source: the second post ("Perché le preview, e perché al massimo 50?", "Perché before_id invece di un offset?", "Come
trova Codex cosa è cambiato dall'ultimo passaggio?"). Sizes are bytes of UTF-8 JSON of what the tools return.

Listing by offset exists for this comparison only: it is a query on the store's tables, and no tool.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from arguments import JSON
from bug_tracker import CHANNEL, new_bug, new_bugs, read_item, tracker
from command_line import main, whole
from record_store import RecordStore
from report import Counts, Figures, GroundTruth, Script, both, number, percent, pick, rng, size, table

KIB = 1024

# What each ground-truth check says when it passes.
READ_CHECK = "every full read returns the description as it was opened"
PAGE_CHECK = "every page holds exactly the items that the model has at that place"
CURSOR_CHECK = "paging by before_id reads what was there at the start, each item once, and nothing opened since"
RELIST_CHECK = "listing again finds exactly what changed, and how"
POLL_CHECK = "polling finds exactly what changed, and how"


def list_page(store: RecordStore, limit: int, before_id: Optional[str] = None) -> JSON:
    cursor = {} if before_id is None else {"before_id": before_id}
    return store.call("list_record_items", {"record_channel_id": CHANNEL, "limit": limit, **cursor})


# --- what a page weighs -----------------------------------------------------------------------------------------------


def weigh_page(seed: int, options: argparse.Namespace) -> Counts:
    """The newest page, and each of its items read in full."""
    opened = dict(new_bugs(seed, options.items))
    truth = GroundTruth()
    with closing(tracker(seed, options.items)) as store:
        page = list_page(store, options.page)
        full = 0
        for item in page["items"]:
            read = read_item(store, item["item_id"])
            truth.equal(READ_CHECK, read["values"]["description"], opened[item["item_id"]]["description"])
            full += size(read)
        truth.store_is_sound(store)
    return {
        "page.items": len(page["items"]),
        "page.bytes": size(page),
        "page.schema_bytes": size(page["schema"]),
        "page.full_bytes": full,
        **truth.counts(),
    }


# --- offset against before_id -----------------------------------------------------------------------------------------

Page = Tuple[List[str], Any]  # item ids, and the position of the next page: None at the end
Paging = Callable[[RecordStore, int, Any], Page]


def page_by_offset(store: RecordStore, limit: int, offset: Optional[int]) -> Page:
    """As many interfaces page: so many items from the top. A page that is not full is the last."""
    rows = store.db.execute(
        """SELECT item_id FROM record_item WHERE record_channel_id = ? AND NOT deleted
           ORDER BY position DESC LIMIT ? OFFSET ?""",
        (CHANNEL, limit, offset or 0),
    ).fetchall()
    return [row[0] for row in rows], (offset or 0) + limit if len(rows) == limit else None


def page_by_before_id(store: RecordStore, limit: int, before_id: Optional[str]) -> Page:
    page = list_page(store, limit, before_id)
    return [item["item_id"] for item in page["items"]], page["next_before_id"]


PAGINGS: Dict[str, Paging] = {"offset": page_by_offset, "before_id": page_by_before_id}


class Model:
    """The channel's items, newest first, as plain lists know them."""

    def __init__(self, oldest_first: Sequence[str]) -> None:
        self.number = {item_id: number for number, item_id in enumerate(oldest_first, 1)}  # deleted ones included
        self.items = list(reversed(oldest_first))

    def opened(self, item_id: str) -> None:
        self.number[item_id] = len(self.number) + 1
        self.items.insert(0, item_id)

    def page(self, limit: int, position: Any) -> List[str]:
        """The page at an offset, if `position` is a number, or of what is older than an item, if it is an id."""
        if isinstance(position, str):
            before = self.number[position]
            return [item_id for item_id in self.items if self.number[item_id] < before][:limit]
        return self.items[position or 0 :][:limit]


def walk(change: str, paging: str, seed: int, options: argparse.Namespace) -> Counts:
    """One pass while people open bugs (change: inserts) or delete what was already read (deletes).

    Raises ValueError for as many changes as a page has items: an offset would then never get to the end.
    """
    if options.changes >= options.page:
        raise ValueError(f"--changes must be smaller than --page, got {options.changes} and {options.page}")
    model = Model([item_id for item_id, _ in new_bugs(seed, options.items)])
    at_start = list(model.items)
    people = rng(seed, change)
    truth = GroundTruth()
    reads: List[str] = []
    pages, position = 0, None
    with closing(tracker(seed, options.items)) as store:
        while pages == 0 or position is not None:
            for _ in range(options.changes if pages else 0):
                if change == "inserts":
                    open_bug(store, model, seed)
                else:
                    delete_one_read(store, model, reads, people)
            page, next_position = PAGINGS[paging](store, options.page, position)
            truth.equal(PAGE_CHECK, page, model.page(options.page, position))
            pages += 1
            reads += page
            position = next_position
        truth.store_is_sound(store)
    if paging == "before_id":
        truth.equal(CURSOR_CHECK, reads, at_start)
    return {
        f"{change}.{paging}.pages": pages,
        f"{change}.{paging}.item_reads": len(reads),
        f"{change}.{paging}.read_twice": len(reads) - len(set(reads)),
        f"{change}.{paging}.never_seen": len(set(at_start) & set(model.items) - set(reads)),
        **truth.counts(),
    }


def open_bug(store: RecordStore, model: Model, seed: int) -> str:
    opened_id, values = new_bug(seed, len(model.number) + 1)
    store.create_item(CHANNEL, values, opened_id)
    model.opened(opened_id)
    return opened_id


def delete_one_read(store: RecordStore, model: Model, reads: Sequence[str], people: Any) -> None:
    there = set(model.items)
    deleted = pick(people, [item_id for item_id in reads if item_id in there])
    store.delete_item(CHANNEL, deleted)
    model.items.remove(deleted)


# --- catching up ------------------------------------------------------------------------------------------------------


def catch_up(seed: int, options: argparse.Namespace) -> Counts:
    """An agent that has walked the channel once; people change it; the agent finds out in both ways.

    Raises ValueError for more edits and deletions than the channel has items.
    """
    if options.edited + options.deleted > options.channel:
        raise ValueError(f"--edited and --deleted are together more than the {options.channel} items of --channel")
    model = Model([item_id for item_id, _ in new_bugs(seed, options.channel)])
    truth = GroundTruth()
    with closing(tracker(seed, options.channel)) as store:
        saved_sequence = poll(store, 0, 1)["latest_sequence"]  # before the pass: what changes meanwhile comes up again
        versions = versions_in(all_pages(store, options.page))
        changed = people_at_work(store, model, seed, options)
        pages = all_pages(store, options.page)
        polls = all_events(store, saved_sequence)
        truth.store_is_sound(store)
    found = compared(versions, versions_in(pages))
    truth.equal(RELIST_CHECK, found, changed)
    polled = {event["item_id"]: event["type"] for answer in polls for event in answer["events"]}
    truth.equal(POLL_CHECK, polled, changed)
    return {
        "catchup.changed": len(changed),
        "catchup.relist.calls": len(pages),
        "catchup.relist.bytes": sum(map(size, pages)),
        "catchup.relist.found": len(found),
        "catchup.poll.calls": len(polls),
        "catchup.poll.bytes": sum(map(size, polls)),
        "catchup.poll.found": len(polled),
        **truth.counts(),
    }


def people_at_work(store: RecordStore, model: Model, seed: int, options: argparse.Namespace) -> Dict[str, str]:
    """{item_id: what was done to it}: each change to an item of its own, in mixed order."""
    people = rng(seed, "people at work")
    jobs = ["updated"] * options.edited + ["created"] * options.opened + ["deleted"] * options.deleted
    untouched = sorted(model.items, key=lambda item_id: model.number[item_id])
    changed = {}
    for job in sorted(jobs, key=lambda job: people.random()):
        if job == "created":
            changed[open_bug(store, model, seed)] = job
            continue
        chosen = untouched.pop(int(people.random() * len(untouched)))
        changed[chosen] = job
        if job == "updated":
            store.update_item(CHANNEL, chosen, {"status": "in_progress", "points": pick(people, (1, 2, 3, 5, 8, 13))})
        else:
            store.delete_item(CHANNEL, chosen)
            model.items.remove(chosen)
    return changed


def versions_in(pages: Sequence[JSON]) -> Dict[str, int]:
    """{item_id: version}"""
    return {item["item_id"]: item["version"] for page in pages for item in page["items"]}


def compared(before: Mapping[str, int], now: Mapping[str, int]) -> Dict[str, str]:
    """{item_id: created, updated or deleted}, as two sets of versions tell."""
    found = {item_id: "deleted" for item_id in before if item_id not in now}
    for item_id, version in now.items():
        if version != before.get(item_id):
            found[item_id] = "updated" if item_id in before else "created"
    return found


def all_pages(store: RecordStore, limit: int) -> List[JSON]:
    pages = [list_page(store, limit)]
    while pages[-1]["next_before_id"] is not None:
        pages.append(list_page(store, limit, pages[-1]["next_before_id"]))
    return pages


def all_events(store: RecordStore, after_sequence: int) -> List[JSON]:
    polls = [poll(store, after_sequence, 100)]
    while polls[-1]["has_more"]:
        polls.append(poll(store, polls[-1]["next_after_sequence"], 100))
    return polls


def poll(store: RecordStore, after_sequence: int, limit: int) -> JSON:
    return store.call(
        "poll_resource_events",
        {
            "resource_type": "record_channel",
            "resource_id": CHANNEL,
            "after_sequence": after_sequence,
            "limit": limit,
        },
    )


# --- figures and tables -----------------------------------------------------------------------------------------------

CHANGES = {"inserts": "new bugs opened", "deletes": "items already read deleted"}
WALKS = [(change, paging) for change in CHANGES for paging in PAGINGS]
WAYS = {"relist": "list every page again, compare versions", "poll": "poll_resource_events from the saved sequence"}


def figures(counts: Counts, seeds: int) -> Figures:
    """The ids of results/published.json, in the order of the tables. Walks are sums over the seeds, the rest means."""
    found: Figures = {
        "pagination.page.schema_bytes": counts["page.schema_bytes"] / seeds,
        "pagination.page.kib": counts["page.bytes"] / seeds / KIB,
        "pagination.page.schema_percent": percent(counts["page.schema_bytes"], counts["page.bytes"]),
        "pagination.page.full_read_kib": counts["page.full_bytes"] / seeds / KIB,
    }
    for change, paging in WALKS:
        for what in ("pages", "item_reads", "read_twice", "never_seen"):
            found[f"pagination.{change}.{paging}.{what}"] = counts[f"{change}.{paging}.{what}"]
    for way in WAYS:
        found[f"pagination.catchup.{way}.calls"] = counts[f"catchup.{way}.calls"] / seeds
        found[f"pagination.catchup.{way}.kib"] = counts[f"catchup.{way}.bytes"] / seeds / KIB
        found[f"pagination.catchup.{way}.found"] = counts[f"catchup.{way}.found"] / seeds
    return found


def tables(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    return "\n\n".join(
        [
            page_table(found, published, options),
            walk_table(found, published, options),
            catch_up_table(found, published, options),
        ]
    )


def page_table(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    def cells(ids: Mapping[str, Any]) -> List[str]:
        return [
            number(ids["pagination.page.schema_bytes"]),
            number(ids["pagination.page.kib"], 1),
            number(ids["pagination.page.schema_percent"]) + "%",
            number(ids["pagination.page.full_read_kib"], 1),
        ]

    return table(
        f"What a page of {options.page} previews weighs",
        ["mean of the seeds", "", "schema, bytes", "page with schema, KiB", "schema / page", "same items in full, KiB"],
        both("newest page", found, published, cells),
    )


def walk_table(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    rows: List[List[str]] = []
    for change, paging in WALKS:

        def cells(ids: Mapping[str, Any], name: str = f"pagination.{change}.{paging}") -> List[str]:
            return [number(ids[f"{name}.{what}"]) for what in ("pages", "item_reads", "read_twice", "never_seen")]

        rows += both(f"{options.changes} {CHANGES[change]}; {paging}", found, published, cells)
    return table(
        f"before_id instead of an offset: {options.items} items, sums over the seeds",
        ["after each page; paging", "", "pages", "item reads", "read twice", "never seen"],
        rows,
        ["never seen: of the items that were there from beginning to end"],
    )


def catch_up_table(found: Figures, published: Mapping[str, Any], options: argparse.Namespace) -> str:
    changed = options.edited + options.opened + options.deleted
    rows: List[List[str]] = []
    for way, label in WAYS.items():

        def cells(ids: Mapping[str, Any], name: str = f"pagination.catchup.{way}") -> List[str]:
            shown = f"{number(ids[f'{name}.found'])} of {changed}"
            return [number(ids[f"{name}.calls"], 1), number(ids[f"{name}.kib"], 1), shown]

        rows += both(label, found, published, cells)
    return table(
        f"What changed since the last pass over {options.channel} items: "
        f"{options.edited} edited, {options.opened} opened, {options.deleted} deleted",
        ["mean of the seeds", "", "calls", "KiB returned", "found"],
        rows,
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    def add(name: str, low: int, high: int, default: int, text: str) -> None:
        parser.add_argument(name, type=whole(low, high), default=default, help=f"{text} (default: {default})")

    add("--items", 1, 20_000, 600, "items that are weighed and paged through")
    add("--page", 1, 50, 50, "items on a page")
    add("--changes", 0, 49, 2, "bugs opened, or items deleted, after each page; fewer than --page")
    add("--channel", 1, 20_000, 400, "items of the channel in which to catch up")
    add("--edited", 0, 300, 30, "items that people edit")
    add("--opened", 0, 300, 12, "bugs that people open")
    add("--deleted", 0, 300, 3, "items that people delete")


SCRIPT = Script(
    name="pagination",
    about="What a page weighs, offset against before_id while people work, and catching up from the event log.",
    examples="  python pagination.py --seeds 1-5\n  python pagination.py --items 2000 --changes 10 --seeds 1-20",
    parts={
        "page": weigh_page,
        **{f"{change}.{paging}": partial(walk, change, paging) for change, paging in WALKS},
        "catchup": catch_up,
    },
    figures=figures,
    tables=tables,
    add_options=add_options,
)

if __name__ == "__main__":
    main(SCRIPT)
