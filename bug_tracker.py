"""The bug tracker that the record scripts work on: one channel's schema, and as many plausible bugs as they ask for.

Glossary
    field    {key, label, type, is_required, is_unique, config} of the channel's schema; there are eleven
    bug      (item_id, values): an item as people open it: New, still without owner, severity, points, area, due date
    number   1, 2, 3, … in the order of opening: BUG-0001 is the oldest
    tracker  a store with the channel CHANNEL and bugs in it, opened three hours apart, the last one NOW
    intention  {key: Meant} for one bug: what a person wants in each of the six KEYS, in that person's words
    Meant    words, and what they have to become in the store: None if they must be refused (20 points, where 13 is the
             most). Only the ground truth looks at the second part

Source: the second post ("La ricostruzione") names the fields and limits; its refusal shows the options of status and
owner. It prints no texts: labels, titles and descriptions are ours, chosen so that the schema, a page of previews and
fifty full reads weigh about what the post says. Nothing relies on that: pagination.py weighs what the tools return.
"""

from __future__ import annotations

import uuid
import weakref
from functools import lru_cache
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple, Type

from arguments import JSON
from record_store import RecordStore
from report import pick, rng

Bug = Tuple[str, JSON]

CHANNEL = "bugs"
TODAY = "2026-11-09"  # a Monday: the day on which the agent works
NOW = 1_794_214_800.0  # 09:00 UTC on that day, in seconds since the epoch
DAY = 86_400.0  # seconds
OPENED_EVERY = DAY / 8


def tracker(
    seed: int, count: int, refusal: str = "labels", store_class: Type[RecordStore] = RecordStore
) -> RecordStore:
    """A store in memory with new_bugs(seed, count) in it, in which it is NOW. Its times are the same in every run."""
    store = store_class(clock=Clock(NOW, step=1.0), refusal=refusal)
    filled(seed, count).db.backup(store.db)
    return store


@lru_cache(maxsize=1)
def filled(seed: int, count: int) -> RecordStore:
    """Made once, then copied: to fill a store takes longer than what most parts of the scripts do with it."""
    store = RecordStore(clock=Clock(NOW - OPENED_EVERY * count, step=OPENED_EVERY))
    fill(store, new_bugs(seed, count))
    weakref.finalize(store, store.db.close)  # when another takes its place
    return store


def fill(store: RecordStore, bugs: Iterable[Bug]) -> None:
    store.create_channel(CHANNEL, FIELDS)
    for item_id, values in bugs:
        store.create_item(CHANNEL, values, item_id)


def read_item(store: RecordStore, item_id: str) -> JSON:
    return store.call("read_record_item", {"record_channel_id": CHANNEL, "item_id": item_id})


def values_read(bugs: Sequence[Bug]) -> Dict[str, JSON]:
    """{item_id: values} as a read has to return them from an untouched tracker: the ground truth, worked out apart."""
    empty = dict.fromkeys(field["key"] for field in FIELDS)
    values = {}
    for later_bugs, (item_id, opened) in zip(range(len(bugs) - 1, -1, -1), bugs):
        age_days = int(NOW // DAY - (NOW - OPENED_EVERY * later_bugs) // DAY)
        values[item_id] = {**empty, **opened, "age_days": age_days}
    return values


class Clock:
    """Every look at it takes `step` seconds, so that times do not depend on the machine."""

    def __init__(self, now: float, step: float) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


# --- the schema ------------------------------------------------------------------------------------------------------


def field(key: str, label: str, kind: str, required: bool = False, unique: bool = False, **config: Any) -> JSON:
    return {"key": key, "label": label, "type": kind, "is_required": required, "is_unique": unique, "config": config}


def options(*chosen: Tuple[str, str, str]) -> List[JSON]:
    return [{"value": value, "label": label, "color": color} for value, label, color in chosen]


STATUS = options(
    ("new", "New", "gray"),
    ("triaged", "Triaged", "blue"),
    ("in_progress", "In progress", "yellow"),
    ("fixed", "Fixed", "green"),
    ("wont_fix", "Won't fix", "red"),
)
OWNER = options(("aiko", "Aiko", "purple"), ("mika", "Mika", "orange"), ("ren", "Ren", "teal"))
SEVERITY = options(("s1", "S1 Critical", "red"), ("s2", "S2 Major", "orange"), ("s3", "S3 Minor", "yellow"))
AREA = options(
    ("editor", "Editor", "blue"),
    ("sync", "Sync", "green"),
    ("search", "Search", "yellow"),
    ("mobile_app", "Mobile app", "pink"),
    ("billing", "Billing", "brown"),
)

FIELDS = [
    field("ticket", "Ticket", "text", required=True, unique=True, max_length=20),
    field("title", "Title", "text", required=True, max_length=200),
    field("description", "Description", "text", required=True, max_length=4000),
    field("status", "Status", "select", required=True, options=STATUS),
    field("owner", "Owner", "select", options=OWNER),
    field("severity", "Severity", "select", options=SEVERITY),
    field("points", "Points", "number", min=0, max=13),
    field("area", "Area", "select", options=AREA),
    field("due", "Due by", "date"),
    field("reporter", "Reporter", "text", required=True, max_length=80),
    field("age_days", "Age in days", "formula", expression="days_since(created_at)"),
]


# --- the bugs --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def new_bugs(seed: int, count: int) -> Tuple[Bug, ...]:
    """Bugs number 1 to count, oldest first."""
    return tuple(new_bug(seed, number) for number in range(1, count + 1))


def new_bug(seed: int, number: int) -> Bug:
    """Its texts depend on the seed and the number only."""
    source = rng(seed, f"bug {number}")
    place, control, symptom = pick(source, PLACES), pick(source, CONTROLS), pick(source, SYMPTOMS)
    title = symptom.format(place=place, control=control)
    report = REPORT.format(place=place, control=control, device=pick(source, DEVICES))
    # The post: descriptions have 300 to 4,000 characters. Uniform in between is our choice; full reads then come out.
    length = 300 + int(source.random() * 3_701)
    log = [pick(source, LOG) for _ in range(length // 80)]
    values = {
        "ticket": f"BUG-{number:04d}",
        "title": title,
        "description": "\n".join([report, *log])[:length],  # a log is cut wherever it reaches the limit
        "status": "new",
        "reporter": pick(source, REPORTERS),
    }
    return item_id(number), values


def item_id(number: int) -> str:
    """A UUID, as trackers have, but the same in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"https://bugs.example/{number}"))


PLACES = (
    "Settings → Labels",
    "Settings → Members",
    "Board → Filters",
    "Board → Columns",
    "Inbox → Mentions",
    "Files → Shared",
    "Notes → History",
    "Export → CSV",
    "Billing → Invoices",
    "Profile → Devices",
)
CONTROLS = ("Save", "Undo", "Duplicate", "Move to…", "Assign", "Archive", "Apply", "Due date", "Select all", "Retry")
SYMPTOMS = (
    "{place}: “{control}” doesn’t respond after the window was resized",
    "{place}: “{control}” is lost when the connection drops – no error shown",
    "{place}: can’t reach “{control}” with the keyboard on a small screen",
    "{place}: “{control}” shows yesterday’s state until the page is reloaded",
    "{place}: pressing “{control}” twice creates two entries – one can’t be removed",
    "{place}: the spinner next to “{control}” never stops, but the change isn’t saved",
    "{place}: “{control}” is cut off in German and doesn’t wrap",
    "{place}: another member’s change disappears after “{control}” – no warning",
)
REPORT = (
    "Seen on {device}, with two accounts, since the last update. To repeat: open {place}, change any entry, "
    "then use “{control}” and wait for ten seconds. It happens about every third time.\nLog:"
)
DEVICES = ("Windows 11, Firefox", "macOS 15, Safari", "Ubuntu 24.04, Chrome", "an iPhone 15", "a Pixel 8", "iPadOS 18")
REPORTERS = ("Yuki Tanaka", "Lena Vogt", "Marco Bianchi", "Sara Lindqvist", "Tom Okafor", "Ines Duarte")
LOG = (
    "WARN sync: push of 3 changes refused with 409 (row is newer on the server), will be tried again in 4 s",
    "INFO sync: pull of 212 rows took 1840 ms, expected under 500 ms; the server spent 1610 ms of these",
    "WARN store: row 4471 was changed here and on the server, both are kept until the next pull decides",
    "INFO view: list rendered again with 312 rows, reason: filter changed; the selection was at row 18",
    "INFO view: focus was lost while a menu was open, so the menu is closed and its entry not applied",
    "WARN net: GET /v2/boards/17/rows?limit=100 timed out after 30 s, 2 of 5 attempts are left for it",
    "INFO net: connection is back after 12 s, 3 requests were waiting and are sent in their old order",
    "INFO auth: token renewed, valid for 3600 s; the one before had expired 2 s ago without any request",
    "WARN queue: 5 changes are waiting, the oldest for 41 s; the indicator in the title bar shows none",
    "ERROR view: cannot read property 'id' of undefined at list.js:2210, called by refresh at list.js:1987",
)


# --- what people want of the bugs -------------------------------------------------------------------------------------

KEYS = ("status", "owner", "severity", "points", "area", "due")


class Meant(NamedTuple):
    words: Any
    value: Any


Intention = Dict[str, Meant]

# Written out rather than looked up in the schema: this is the ground truth, and must not share the agent's mistakes.
MEANINGS: Dict[str, Dict[Any, Any]] = {
    "status": {"Triaged": "triaged", "In progress": "in_progress", "Fixed": "fixed", "Won't fix": "wont_fix"},
    "owner": {"Aiko": "aiko", "Mika": "mika", "Ren": "ren"},
    "severity": {"S1 Critical": "s1", "S2 Major": "s2", "S3 Minor": "s3", "major": "s2"},
    "points": {1: 1, 2: 2, 3: 3, 5: 5, 8: 8, 13: 13, 20: None},
    "area": {"Editor": "editor", "Sync": "sync", "Search": "search", "Mobile app": "mobile_app", "Billing": "billing"},
}
CHOICES = {key: [Meant(words, value) for words, value in said.items()] for key, said in MEANINGS.items()}
FRIDAY = Meant("Friday", "2026-11-13")  # the one after TODAY


def intentions(seed: int, bugs: Sequence[Bug]) -> Dict[str, Intention]:
    """{item_id: intention}, the same in every run of a seed."""
    source = rng(seed, "intentions")
    meant = {}
    for item_id, _ in bugs:
        intention = {key: pick(source, CHOICES[key]) for key in KEYS[:-1]}
        day = f"2026-11-{14 + int(source.random() * 14)}"
        intention["due"] = FRIDAY if source.random() < 0.5 else Meant(day, day)
        meant[item_id] = intention
    return meant
