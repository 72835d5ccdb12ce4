"""A model check: random calls go to a store and to a plain model of its contract, which must agree after every one.

Glossary
    step     one call and the time it happens at: (now, name, arguments)
    model    the contract in dicts and lists: no SQL, no index, no transaction; short enough to be seen to be right
    answer   ("result", value), ("refused", code, failing keys), or ("raised", …), which no model ever gives
    script   the few steps that are left of a run that failed, as a program

`SEED=7 TIMES=50 python -m unittest tests.test_model` takes fifty times as many steps from another seed.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import re
import unittest
from datetime import datetime, timedelta
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from arguments import JSON, ToolError
from kb_store import KnowledgeBaseStore
from record_store import RecordStore
from tests.hostile import SEED, TIMES
from tests.record_case import NOW, field, options

STEPS = 2_000 * TIMES  # for each seed
SEEDS = 2

Answer = Tuple[Any, ...]


class Step(NamedTuple):
    now: float
    name: str  # of a tool, or of a method of people's side
    arguments: JSON


class Refused(Exception):
    """A model's refusal: the error code and, for failed validation, the keys."""


def stamp(microseconds: int) -> str:
    """Of a version, which a model counts as microseconds since the epoch."""
    return (datetime(1970, 1, 1) + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds") + "Z"


class Model:
    """What both models share: the clock, the keys, the event log."""

    resource_type = ""
    subject = ""
    version = ""
    granted: Tuple[str, ...] = ()

    def __init__(self) -> None:
        self.now = 0
        self.keys: Dict[Tuple[str, str], Tuple[Any, JSON]] = {}  # (resource_id, key): what was asked, its result
        self.logs: Dict[str, List[JSON]] = {}

    def later(self, previous: int = 0) -> int:
        return max(self.now, previous + 1)

    def log(self, resource_id: str, kind: str, subject: str, version: Any) -> None:
        log = self.logs[resource_id]
        log.append({"sequence": len(log) + 1, "type": kind, self.subject: subject, self.version: version})

    def need_grant(self, resource_id: str) -> None:
        if resource_id not in self.granted or resource_id not in self.logs:
            raise Refused("not_found")

    def replayed(self, resource_id: str, key: str, request: Any) -> Optional[JSON]:
        if (resource_id, key) not in self.keys:
            return None
        first, result = self.keys[resource_id, key]
        if repr(first) != repr(request):  # repr, since 1 == 1.0 == True
            raise Refused("idempotency_key_reused")
        return {**result, "replayed": True}

    def poll_resource_events(self, resource_type: str, resource_id: str, after_sequence: int, limit: int) -> JSON:
        if resource_type != self.resource_type:
            raise Refused("not_found")
        self.need_grant(resource_id)
        log = self.logs[resource_id]
        if after_sequence > len(log):
            raise Refused("sequence_beyond_log")
        events = log[after_sequence : after_sequence + limit]
        after = after_sequence + len(events)
        return {
            "events": events,
            "next_after_sequence": after,
            "latest_sequence": len(log),
            "has_more": after < len(log),
        }

    def state(self) -> Any:
        """Everything there is, in the form in which `store_state` reads it from a store."""
        raise NotImplementedError

    def step(self, rng: random.Random) -> Tuple[str, JSON]:
        """A random call: the name, the arguments."""
        raise NotImplementedError

    def some_key(self, rng: random.Random) -> str:
        """A new one, or one that was used lately: there are k0, k1, k2, …"""
        return f"k{len(self.keys) if rng.random() < 0.6 else max(0, len(self.keys) - rng.randint(0, 20))}"

    def poll_step(self, rng: random.Random, resource_id: str) -> Tuple[str, JSON]:
        after = max(0, len(self.logs.get(resource_id, ())) - rng.randint(-2, 12))
        kind = self.resource_type if rng.random() < 0.95 else "session"
        poll = {"resource_type": kind, "resource_id": resource_id, "after_sequence": after, "limit": rng.randint(1, 9)}
        return "poll_resource_events", poll


# --- knowledge bases --------------------------------------------------------------------------------------------------

WORDS = ("refund", "Refunds", "invoice", "CAFÉ", "cafe", "Zürich", "zurich", "vpn", "vpn-2", "password", "a")


def folded_words(text: str) -> List[str]:
    plain = text.lower().translate(str.maketrans("éü", "eu"))
    return list(dict.fromkeys(re.findall("[a-z0-9]+", plain)))


class KnowledgeBaseModel(Model):
    resource_type, subject, version = "knowledge_base", "article_id", "updated_at"
    granted = ("kb", "other")

    def __init__(self) -> None:
        super().__init__()
        self.articles: Dict[Tuple[str, str], JSON] = {}  # in the order of creation

    def state(self) -> Any:
        return {
            where: (article["title"], article["content"], article["published"], stamp(article["version"]))
            for where, article in self.articles.items()
        }

    # people's side

    def create_knowledge_base(self, knowledge_base_id: str) -> None:
        self.logs.setdefault(knowledge_base_id, [])

    def create_article(self, knowledge_base_id: str, article_id: Optional[str], published: bool, **texts: str) -> JSON:
        if knowledge_base_id not in self.logs:
            raise Refused("not_found")
        taken = [name for base, name in self.articles if base == knowledge_base_id]
        numbers = [article["number"] for (base, _), article in self.articles.items() if base == knowledge_base_id]
        number = max(numbers, default=0) + 1
        if article_id is None:
            number = next(n for n in itertools.count(number) if f"a{n:06d}" not in taken)
        elif article_id in taken:
            raise Refused("invalid_arguments")
        where = knowledge_base_id, article_id or f"a{number:06d}"
        self.articles[where] = {**texts, "published": published, "version": self.later(), "number": number}
        return self.saved(where, "created")

    def save(self, knowledge_base_id: str, article_id: str, kind: str, **changes: Any) -> JSON:
        article = self.articles.get((knowledge_base_id, article_id))
        if article is None:
            raise Refused("not_found")
        if changes.get("title", article["title"]) != article["title"]:
            kind = "retitled"
        article.update(changes, version=self.later(article["version"]))
        return self.saved((knowledge_base_id, article_id), kind)

    def saved(self, where: Tuple[str, str], kind: str) -> JSON:
        self.log(where[0], kind, where[1], stamp(self.articles[where]["version"]))
        return self.citation(where)

    def citation(self, where: Tuple[str, str]) -> JSON:
        version = stamp(self.articles[where]["version"])
        return {"knowledge_base_id": where[0], "article_id": where[1], "updated_at": version}

    def save_article(self, knowledge_base_id: str, article_id: str, **changes: str) -> JSON:
        return self.save(knowledge_base_id, article_id, "saved", **changes)

    def retitle_article(self, knowledge_base_id: str, article_id: str, title: str) -> JSON:
        return self.save(knowledge_base_id, article_id, "saved", title=title)

    def publish_article(self, knowledge_base_id: str, article_id: str) -> JSON:
        return self.save(knowledge_base_id, article_id, "published", published=True)

    def unpublish_article(self, knowledge_base_id: str, article_id: str) -> JSON:
        return self.save(knowledge_base_id, article_id, "unpublished", published=False)

    # tools

    def published(self, knowledge_base_id: str, article_id: str) -> JSON:
        article = self.articles.get((knowledge_base_id, article_id))
        if article is None or not article["published"]:
            raise Refused("not_found")
        return article

    def read_knowledge_article(self, knowledge_base_id: str, article_id: str) -> JSON:
        self.need_grant(knowledge_base_id)
        article = self.published(knowledge_base_id, article_id)
        cited = self.citation((knowledge_base_id, article_id))
        return {"citation": cited, "title": article["title"], "content": article["content"]}

    def edit_knowledge_article(self, expected_version: str, idempotency_key: str, **edit: str) -> JSON:
        where = edit.pop("knowledge_base_id"), edit.pop("article_id")
        if where[0] not in self.granted:
            raise Refused("not_found")
        request = where, expected_version, sorted(edit.items())
        replayed = self.replayed(where[0], idempotency_key, request)
        if replayed:
            return replayed
        article = self.published(*where)
        if expected_version.replace("+00:00", "Z") != stamp(article["version"]):
            raise Refused("version_conflict")
        result = {"citation": self.save(*where, "saved", **edit), "replayed": False}
        self.keys[where[0], idempotency_key] = request, result
        return result

    def search_knowledge_base(self, knowledge_base_id: str, query: str, limit: int) -> JSON:
        self.need_grant(knowledge_base_id)
        words = folded_words(query)
        ranked = []
        for where, article in self.articles.items():
            title, content = folded_words(article["title"]), folded_words(article["content"])
            found = sum(word in title or word in content for word in words)
            if where[0] == knowledge_base_id and article["published"] and found:
                ranked.append((-found, -sum(word in title for word in words), article["number"], where))
        return {"results": [self.hit(where, words) for *_, where in sorted(ranked)[:limit]]}

    def hit(self, where: Tuple[str, str], words: List[str]) -> JSON:
        article = self.articles[where]
        content = article["content"]
        starts = [content.lower().find(word) for word in sorted(words, key=lambda word: -len(word))]
        start = next((start for start in starts if start >= 0), 0)
        return {"citation": self.citation(where), "title": article["title"], "snippet": content[start : start + 120]}

    # random steps

    def step(self, rng: random.Random) -> Tuple[str, JSON]:
        base = rng.choice(("kb", "kb", "kb", "other", "hidden", "unknown"))
        here = [name for where, name in self.articles if where == base]
        article_id = rng.choice([*here, "unknown"]) if rng.random() < 0.95 else "unknown"
        where = {"knowledge_base_id": base, "article_id": article_id}
        texts = {"title": rng.choice(WORDS), "content": " ".join(rng.choices(WORDS, k=rng.choice((1, 5, 60))))}
        kind = rng.random()
        if kind < 0.03 or not self.logs:
            return "create_knowledge_base", {"knowledge_base_id": rng.choice(("kb", "other", "hidden"))}
        if kind < 0.12 and len(here) < 8:
            new_id = rng.choice((None, None, f"a{len(here) + 2:06d}", article_id))
            return "create_article", {**where, **texts, "article_id": new_id, "published": rng.random() < 0.8}
        if kind < 0.2:
            title = {"title": texts["title"]} if rng.random() < 0.5 else {}
            return "save_article", {**where, "content": texts["content"], **title}
        if kind < 0.25:
            return "retitle_article", {**where, "title": texts["title"]}
        if kind < 0.33:
            return rng.choice(("publish_article", "publish_article", "unpublish_article")), where
        if kind < 0.45:
            return "read_knowledge_article", where
        if kind < 0.6:
            query = " ".join(rng.choices(("no", *WORDS), k=rng.randint(1, 4))) + rng.choice((" ?", " *", " AND"))
            return "search_knowledge_base", {"knowledge_base_id": base, "query": query, "limit": rng.randint(1, 20)}
        if kind < 0.7:
            return self.poll_step(rng, base)
        return "edit_knowledge_article", self.edit_step(rng, where, texts)

    def edit_step(self, rng: random.Random, where: JSON, texts: JSON) -> JSON:
        key = self.some_key(rng)
        used = [place for place in self.keys if place[1] == key]
        if used and rng.random() < 0.6:  # the same edit again
            (base, article_id), version, edit = self.keys[rng.choice(used)][0]
            named = {"knowledge_base_id": base, "article_id": article_id, **dict(edit)}
            return {**named, "expected_version": version, "idempotency_key": key}
        versions = [
            e["updated_at"] for e in self.logs.get(where["knowledge_base_id"], ()) if where["article_id"] in e.values()
        ]
        version = rng.choice(versions[-2:] + versions[-1:] * 4 or ["2026-11-08T09:00:00Z"])
        if rng.random() < 0.2:
            version = version.replace("Z", "+00:00")
        edit = {**where, "content": texts["content"], "expected_version": version, "idempotency_key": key}
        return {**edit, "title": texts["title"]} if rng.random() < 0.5 else edit


# --- record channels --------------------------------------------------------------------------------------------------

STATUS = options(new="New", done="Done")
PARENT = field("parent", "relation", {"record_channel_id": "bugs"})
SCHEMAS = [
    [
        field("ticket", "text", {"max_length": 4}, required=True, unique=True), field("status", "select", STATUS),
        field("points", "number", {"min": 0, "max": 13}), PARENT,
        field("twice", "formula", {"expression": "points * 2"}),
    ],
    [
        field("points", "number", {"min": 0, "max": 5}, unique=True), field("status", "select", STATUS, required=True),
        field("ticket", "text"), field("note", "text", unique=True),
    ],
    [field("status", "text", unique=True), field("points", "number", {}, required=True), field("ticket", "text")],
]  # fmt: skip
VALUES: Dict[str, List[Any]] = {
    "ticket": ["T-1", "T-2", "T-3", "T-44", "T-555", "", None, 5], "status": ["new", "done", "New", "", None],
    "points": [0, 1, 2, 2.0, 5, 6, 13, 14, -1, 0.5, None, "3", True], "parent": ["b1", "item-000002", "gone", None, 1],
    "note": ["x", "y", "z", "", None], "twice": [4], "unknown": [1],
}  # fmt: skip


class RecordModel(Model):
    resource_type, subject, version = "record_channel", "item_id", "version"
    granted = ("bugs", "other")

    def __init__(self) -> None:
        super().__init__()
        self.schemas: Dict[str, List[JSON]] = {}
        self.items: Dict[Tuple[str, str], JSON] = {}  # in the order of creation, deleted ones too

    def state(self) -> Any:
        return {
            where: (item["version"], item["position"], stamp(item["created"]), stamp(item["updated"]), item["deleted"])
            for where, item in self.items.items()
        }

    # people's side

    def create_channel(self, record_channel_id: str, fields: List[JSON]) -> None:
        if record_channel_id in self.schemas:
            raise Refused("invalid_arguments")
        self.schemas[record_channel_id] = fields
        self.logs[record_channel_id] = []

    def change_schema(self, record_channel_id: str, fields: List[JSON]) -> None:
        self.need_channel(record_channel_id)
        for key in [one["key"] for one in fields if one["is_unique"]]:
            values = [item["values"].get(key) for item in self.there(record_channel_id).values()]
            values = [value for value in values if value not in (None, "")]
            if any(value in values[:index] for index, value in enumerate(values)):
                raise Refused("invalid_arguments")
        self.schemas[record_channel_id] = fields

    def create_item(self, record_channel_id: str, values: JSON, item_id: Optional[str]) -> JSON:
        self.need_channel(record_channel_id)
        all_of_it = {name: item for (channel, name), item in self.items.items() if channel == record_channel_id}
        position = max([item["position"] for item in all_of_it.values()], default=0) + 1
        if item_id is None:
            position = next(n for n in itertools.count(position) if f"item-{n:06d}" not in all_of_it)
        elif item_id in all_of_it:
            raise Refused("invalid_arguments")
        new_id = item_id or f"item-{position:06d}"
        required = [one["key"] for one in self.schemas[record_channel_id] if one["is_required"]]
        self.validate(record_channel_id, new_id, {**dict.fromkeys(required), **values})
        now = self.later()
        self.items[record_channel_id, new_id] = {
            "values": dict(values), "version": 1, "position": position, "created": now, "updated": now, "deleted": 0,
        }  # fmt: skip
        self.log(record_channel_id, "created", new_id, 1)
        return {"item_id": new_id, "version": 1}

    def update_item(self, record_channel_id: str, item_id: str, values: JSON) -> JSON:
        item = self.need_item(record_channel_id, item_id)
        self.validate(record_channel_id, item_id, values)
        if values:
            item["values"].update(values)
            self.touch(record_channel_id, item_id, "updated")
        return {"item_id": item_id, "version": item["version"]}

    def delete_item(self, record_channel_id: str, item_id: str) -> None:
        self.need_item(record_channel_id, item_id).update(values={}, deleted=1)
        self.touch(record_channel_id, item_id, "deleted")

    def touch(self, record_channel_id: str, item_id: str, kind: str) -> None:
        item = self.items[record_channel_id, item_id]
        item.update(version=item["version"] + 1, updated=self.later(item["updated"]))
        self.log(record_channel_id, kind, item_id, item["version"])

    # rules

    def need_channel(self, record_channel_id: str) -> None:
        if record_channel_id not in self.schemas:
            raise Refused("not_found")

    def there(self, record_channel_id: str) -> Dict[str, JSON]:
        return {
            name: item
            for (channel, name), item in self.items.items()
            if channel == record_channel_id and not item["deleted"]
        }

    def need_item(self, record_channel_id: str, item_id: str) -> JSON:
        item = self.there(record_channel_id).get(item_id)
        if item is None:
            raise Refused("not_found")
        return item

    def validate(self, record_channel_id: str, item_id: str, values: JSON) -> None:
        fields = self.schemas[record_channel_id]
        others = [item for name, item in self.there(record_channel_id).items() if name != item_id]
        failing = [
            one["key"] for one in fields if one["key"] in values and not self.fits(one, values[one["key"]], others)
        ]
        failing += [key for key in values if key not in [one["key"] for one in fields]]
        if failing:
            raise Refused("validation_failed", failing)

    def fits(self, one: JSON, value: Any, others: List[JSON]) -> bool:
        kind, config = one["type"], one["config"]
        if kind == "formula":
            return False
        if value is None or (value == "" and one["is_required"]):
            return not one["is_required"]
        if one["is_unique"] and value != "" and any(value == other["values"].get(one["key"]) for other in others):
            return False
        if kind == "number":
            return type(value) in (int, float) and config.get("min", value) <= value <= config.get("max", value)
        if kind == "select":
            return value in [option["value"] for option in config["options"]]
        if kind == "relation":
            return value in self.there(config["record_channel_id"])
        return type(value) is str and len(value) <= config.get("max_length", 10)

    # tools

    def edit_record_item(
        self, record_channel_id: str, item_id: str, values: JSON, expected_version: int, idempotency_key: str
    ) -> JSON:
        if record_channel_id not in self.granted:
            raise Refused("not_found")
        request = record_channel_id, item_id, sorted(values.items()), expected_version
        replayed = self.replayed(record_channel_id, idempotency_key, request)
        if replayed:
            return replayed
        item = self.need_item(record_channel_id, item_id)
        if item["version"] != expected_version:
            raise Refused("version_conflict")
        self.update_item(record_channel_id, item_id, values)
        result = {
            "record_channel_id": record_channel_id, "item_id": item_id, "version": item["version"],
            "updated_at": stamp(item["updated"]), "replayed": False,
        }  # fmt: skip
        self.keys[record_channel_id, idempotency_key] = request, result
        return result

    def read_record_item(self, record_channel_id: str, item_id: str) -> JSON:
        self.need_grant(record_channel_id)
        item = self.need_item(record_channel_id, item_id)
        values = {one["key"]: item["values"].get(one["key"]) for one in self.schemas[record_channel_id]}
        if "twice" in values:
            points = values["points"]
            values["twice"] = None if points is None else points * 2
        return {"record_channel_id": record_channel_id, "values": values, **self.head(item_id, item)}

    def head(self, item_id: str, item: JSON) -> JSON:
        times = {"created_at": stamp(item["created"]), "updated_at": stamp(item["updated"])}
        return {"item_id": item_id, "version": item["version"], **times}

    def list_record_items(self, record_channel_id: str, limit: int, before_id: Optional[str] = None) -> JSON:
        self.need_grant(record_channel_id)
        before = len(self.items) * 2
        if before_id is not None:
            if (record_channel_id, before_id) not in self.items:
                raise Refused("not_found")
            before = self.items[record_channel_id, before_id]["position"]
        newest_first = sorted(self.there(record_channel_id).items(), key=lambda one: -one[1]["position"])
        older = [(name, item) for name, item in newest_first if item["position"] < before]
        preview = self.preview_by(self.schemas[record_channel_id])
        return {
            "record_channel_id": record_channel_id,
            "schema": [one["key"] for one in self.schemas[record_channel_id]],
            "items": [{**self.head(name, item), "preview": preview(item["values"])} for name, item in older[:limit]],
            "next_before_id": older[limit - 1][0] if len(older) > limit else None,
        }

    def preview_by(self, fields: List[JSON]) -> Callable[[JSON], str]:
        keys = [one["key"] for one in fields if one["type"] == "select"]
        keys += [one["key"] for one in fields if one["type"] not in ("select", "formula")]
        return lambda values: " | ".join(f"{key}: {values[key]}" for key in keys if values.get(key) not in (None, ""))

    # random steps

    def step(self, rng: random.Random) -> Tuple[str, JSON]:
        channel = rng.choice(("bugs", "bugs", "bugs", "other", "hidden", "unknown"))
        names = [name for where, name in self.items if where == channel]
        there = list(self.there(channel)) or ["gone"]
        item_id = rng.choice(there) if rng.random() < 0.85 else rng.choice([*names, "gone"])
        where = {"record_channel_id": channel, "item_id": item_id}
        values = {key: rng.choice(VALUES[key]) for key in rng.sample(list(VALUES), rng.choice((0, 1, 1, 2, 3)))}
        kind = rng.random()
        if kind < 0.03 or not self.logs:
            named = rng.choice(("bugs", "other", "hidden"))
            return "create_channel", {"record_channel_id": named, "fields": rng.choice(SCHEMAS)}
        if kind < 0.06:
            return "change_schema", {"record_channel_id": channel, "fields": rng.choice(SCHEMAS)}
        if kind < 0.2:
            likely = {"ticket": rng.choice(VALUES["ticket"]), "status": "new", "points": rng.randint(0, 5)}
            new_id = rng.choice((None, None, "b1", f"item-{len(names) + 2:06d}"))
            return "create_item", {"record_channel_id": channel, "values": {**likely, **values}, "item_id": new_id}
        if kind < 0.3:
            return "update_item", {**where, "values": values}
        if kind < 0.34:
            return "delete_item", where
        if kind < 0.45:
            return "read_record_item", where
        if kind < 0.55:
            before = {"before_id": where["item_id"]} if rng.random() < 0.6 else {}
            return "list_record_items", {"record_channel_id": channel, "limit": rng.randint(1, 6), **before}
        if kind < 0.65:
            return self.poll_step(rng, channel)
        key = self.some_key(rng)
        used = [place for place in self.keys if place[1] == key]
        if used and rng.random() < 0.6:  # the same edit again
            channel, item_id, items, version = self.keys[rng.choice(used)][0]
            where, values = {"record_channel_id": channel, "item_id": item_id}, dict(items)
        else:
            version = self.items.get((channel, where["item_id"]), {"version": 1})["version"] + rng.choice(
                (0, 0, 0, 0, 1)
            )
            version = max(1, version - rng.choice((0, 0, 0, 0, 1)))
        return "edit_record_item", {**where, "values": values, "expected_version": version, "idempotency_key": key}


# --- running both -----------------------------------------------------------------------------------------------------


class Pair:
    """A store and its model side by side."""

    def __init__(self, store_type: Any, model_type: Any) -> None:
        self.now = NOW
        self.model: Model = model_type()
        self.store = store_type(clock=lambda: self.now, granted=model_type.granted)
        self.tools = {tool["name"] for tool in self.store.TOOLS}

    def difference(self, step: Step) -> Optional[str]:
        """What the two disagree on after this step; None if they agree."""
        self.now = step.now
        self.model.now = round(step.now * 1_000_000)
        expected, found = self.models_answer(step), self.stores_answer(step)
        if expected != found:
            return f"the model answers {expected}\nthe store answers {found}"
        sizes = {resource_id: len(log) for resource_id, log in self.model.logs.items() if log}
        counted = "SELECT resource_id, max(sequence) FROM event GROUP BY resource_id"
        pairs = [
            ("rows", self.model.state(), self.stores_state()),
            ("length of the logs", sizes, dict(self.store.db.execute(counted))),
            ("keys", len(self.model.keys), self.store.db.execute("SELECT count(*) FROM idempotency_key").fetchone()[0]),
        ]
        for what, expected, found in pairs:
            if expected != found:
                return f"the model has {what} {expected}\nthe store has {what} {found}"
        return None

    def models_answer(self, step: Step) -> Answer:
        try:
            return "result", getattr(self.model, step.name)(**step.arguments)
        except Refused as refused:
            return ("refused", *refused.args)

    def stores_answer(self, step: Step) -> Answer:
        try:
            if step.name in self.tools:
                result = self.store.call(step.name, step.arguments)
            else:
                result = getattr(self.store, step.name)(**step.arguments)
        except ToolError as refusal:
            failing = [one["key"] for one in refusal.payload.get("fields", ())]
            return ("refused", refusal.payload["error"], failing) if failing else ("refused", refusal.payload["error"])
        except Exception as error:
            return "raised", repr(error)
        if step.name == "list_record_items":
            result["schema"] = [one["key"] for one in result["schema"]]
        return "result", result

    def stores_state(self) -> Any:
        if isinstance(self.store, KnowledgeBaseStore):
            rows = "SELECT knowledge_base_id, article_id, title, content, published, updated_at FROM article"
        else:
            rows = """SELECT record_channel_id, item_id, version, position, created_at, updated_at, deleted
                      FROM record_item"""
        return {tuple(row[:2]): tuple(row[2:]) for row in self.store.db.execute(rows)}

    def end(self) -> Optional[str]:
        """What is wrong with the whole of it; None if nothing is. Closes the store."""
        self.store.granted = None
        try:
            self.store.check()
            for resource_id, log in self.model.logs.items():
                events: List[JSON] = []
                while len(events) < len(log):
                    events += self.store.poll_resource_events(self.model.resource_type, resource_id, len(events))[
                        "events"
                    ]
                if events != log:
                    return f"the log of {resource_id} is not the model's"
        except Exception as error:
            return repr(error)
        finally:
            self.store.close()
        return None


def run(store_type: Any, model_type: Any, steps: List[Step]) -> Optional[str]:
    """What goes wrong first; None if nothing does."""
    pair = Pair(store_type, model_type)
    found = next(filter(None, map(pair.difference, steps)), None)
    wrong_at_the_end = pair.end()
    return found or wrong_at_the_end


def random_run(store_type: Any, model_type: Any, seed: int, count: int) -> Tuple[List[Step], Optional[str]]:
    """`count` steps, or as many as go well and the one that does not; and what went wrong."""
    rng = random.Random(seed)
    pair = Pair(store_type, model_type)
    steps: List[Step] = []
    now = NOW
    found = None
    while len(steps) < count and found is None:
        now += rng.choice((0, 0, 1, 60, -30))
        steps.append(Step(now, *pair.model.step(rng)))
        found = pair.difference(steps[-1])
    wrong_at_the_end = pair.end()
    return steps, found or wrong_at_the_end


def cut_down(steps: List[Step], fails: Callable[[List[Step]], bool]) -> List[Step]:
    """A part of the steps that still fails, and of which no step can be left out (delta debugging)."""
    size = len(steps)
    while size:
        for start in range(0, len(steps), size):
            rest = steps[:start] + steps[start + size :]
            if fails(rest):
                steps = rest
                break
        else:
            size //= 2
        size = min(size, len(steps))
    return steps


def script(store_type: Any, model_type: Any, steps: List[Step]) -> str:
    """A program that repeats the steps on a fresh store and prints its answers."""
    lines = [
        "from arguments import ToolError",
        f"from {store_type.__module__} import {store_type.__name__}",
        "",
        "def show(act, *arguments, **named):",
        "    try:",
        "        print(act(*arguments, **named))",
        "    except ToolError as refusal:",
        "        print(refusal)",
        "",
        f"store = {store_type.__name__}(clock=lambda: now, granted={model_type.granted!r})",
    ]
    tools = {tool["name"] for tool in store_type.TOOLS}
    for now, name, arguments in steps:
        lines.append(f"now = {now!r}")
        tool = f"store.call, {name!r}, {arguments!r}"
        lines.append(f"show({tool})" if name in tools else f"show(store.{name}, **{arguments!r})")
    return "\n".join([*lines, "store.check()"])


def report(store_type: Any, model_type: Any, steps: List[Step]) -> str:
    few = cut_down(steps, lambda part: run(store_type, model_type, part) is not None)
    return f"{script(store_type, model_type, few)}\n\n{run(store_type, model_type, few)}"


class Agreement(unittest.TestCase):
    def agree(self, store_type: Any, model_type: Any) -> None:
        for seed in range(SEED, SEED + SEEDS):
            steps, wrong = random_run(store_type, model_type, seed, STEPS)
            if wrong is not None:
                self.fail(f"SEED={seed}. This part of the run fails:\n\n{report(store_type, model_type, steps)}")

    def test_knowledge_bases_do_what_the_model_does(self) -> None:
        self.agree(KnowledgeBaseStore, KnowledgeBaseModel)

    def test_record_channels_do_what_the_model_does(self) -> None:
        self.agree(RecordStore, RecordModel)


# --- the check of the check: faults that it must find -----------------------------------------------------------------


class UnmarkedReplay(KnowledgeBaseStore):
    def replay(self, resource_id: str, key: str, fingerprint: bytes) -> Optional[JSON]:
        first = super().replay(resource_id, key, fingerprint)
        return first and {**first, "replayed": False}


class ForgottenKey(KnowledgeBaseStore):
    def record_key(self, *_: Any) -> None:
        pass


class LostEvent(KnowledgeBaseStore):
    def append_event(self, resource_id: str, event_type: str, subject_id: str, version: Any) -> int:
        unpublishing = event_type == "unpublished"
        return 1 if unpublishing else super().append_event(resource_id, event_type, subject_id, version)


class OpenDoor(RecordStore):
    def require_granted(self, resource_id: str) -> None:
        pass


class LaxUnique(RecordStore):
    def clash(self, *_: Any) -> Optional[str]:
        return None


class CheckOfTheCheck(unittest.TestCase):
    def found(self, store_type: Any, model_type: Any) -> str:
        steps, wrong = random_run(store_type, model_type, SEED, 2_000)
        self.assertIsNotNone(wrong, "the fault was not found")
        return report(store_type, model_type, steps)

    def test_faults_are_found_and_cut_down_to_a_few_calls(self) -> None:
        for store_type in (UnmarkedReplay, ForgottenKey, LostEvent, OpenDoor, LaxUnique):
            model_type = RecordModel if issubclass(store_type, RecordStore) else KnowledgeBaseModel
            with self.subTest(store_type.__name__):
                found = self.found(store_type, model_type)
                self.assertLessEqual(found.count("\nshow("), 5, found)

    def test_the_script_of_a_failure_runs(self) -> None:
        program, difference = self.found(UnmarkedReplay, KnowledgeBaseModel).split("\n\nthe model ")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            names: Dict[str, Any] = {}
            exec(program, names)
            names["store"].close()
        self.assertIn("'replayed': False", printed.getvalue().splitlines()[-1])
        self.assertIn("'replayed': True", difference)
