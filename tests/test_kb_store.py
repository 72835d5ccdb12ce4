"""The tools' rules: declarations, search, read, edit, and what people do to articles."""

from __future__ import annotations

import inspect
import json
import sqlite3
from typing import Any, Dict, List
from unittest import mock

import tool_store
from arguments import JSON, ToolError, canonical_time, not_found
from kb_store import SNIPPET, KnowledgeBaseStore
from tests.kb_case import FIRST, KnowledgeBaseCase, rows
from tests.record_case import HOSTILE

# The post, its first listing.
PUBLISHED_TOOLS: List[JSON] = [
    {
        "name": "search_knowledge_base",
        "description": "Search current published articles in one granted knowledge base. Results cite the article ID "
        "and updated time; this is a live database read.",
        "inputSchema": {
            "required": ["knowledge_base_id", "query"],
            "properties": {
                "query": {"type": "string", "minLength": 2, "maxLength": 200},
                "limit": {"type": "integer", "minimum": 1, "maximum": 20},
            },
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "read_knowledge_article",
        "description": "Read one current published article by ID from a granted knowledge base and return a stable "
        "citation.",
        "inputSchema": {"required": ["knowledge_base_id", "article_id"]},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "edit_knowledge_article",
        "description": "Replace article content and optionally its title. Supply the version from "
        "read_knowledge_article; concurrent changes are rejected.",
        "inputSchema": {
            "required": ["knowledge_base_id", "article_id", "content", "expected_version", "idempotency_key"]
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    },
    {
        "name": "poll_resource_events",
        "description": "Resume from an event sequence for one granted channel, Note, knowledge base, record, or "
        "session.",
        "inputSchema": {
            "required": ["resource_type", "resource_id"],
            "properties": {
                "after_sequence": {"type": "integer", "minimum": 0},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            },
        },
        "annotations": {"readOnlyHint": True},
    },
]

GOOD_CALLS: Dict[str, JSON] = {
    "search_knowledge_base": {"knowledge_base_id": "kb", "query": "refund", "limit": 5},
    "read_knowledge_article": {"knowledge_base_id": "kb", "article_id": "a"},
    "edit_knowledge_article": {
        "knowledge_base_id": "kb", "article_id": "a", "title": "T", "content": "C",
        "expected_version": "2026-01-01T00:00:00Z", "idempotency_key": "k",
    },
    "poll_resource_events": {
        "resource_type": "knowledge_base", "resource_id": "kb", "after_sequence": 99, "limit": 5,
    },
}  # fmt: skip


class Declarations(KnowledgeBaseCase):
    def test_tools_are_declared_as_the_post_prints_them(self) -> None:
        self.assertEqual(len(KnowledgeBaseStore.TOOLS), len(PUBLISHED_TOOLS))
        for tool, printed in zip(KnowledgeBaseStore.TOOLS, PUBLISHED_TOOLS):
            for key in ("name", "description", "annotations"):
                self.assertEqual(tool[key], printed[key])
            self.assertEqual(tool["inputSchema"]["required"], printed["inputSchema"]["required"])
            for name, rule in printed["inputSchema"].get("properties", {}).items():
                declared = dict(tool["inputSchema"]["properties"][name])
                declared.pop("default", None)  # ours; the post leaves it out
                self.assertEqual(declared, rule)

    def test_declarations_are_complete_enough_to_be_served(self) -> None:
        for tool in KnowledgeBaseStore.TOOLS:
            self.assertEqual(json.loads(json.dumps(tool)), tool)
            schema = tool["inputSchema"]
            self.assertEqual((schema["type"], schema["additionalProperties"]), ("object", False))
            self.assertLessEqual(set(schema["required"]), set(schema["properties"]))

    def test_each_declared_argument_is_one_of_the_method_with_the_same_default(self) -> None:
        for tool in KnowledgeBaseStore.TOOLS:
            parameters = dict(inspect.signature(getattr(KnowledgeBaseStore, tool["name"])).parameters)
            del parameters["self"]
            properties = tool["inputSchema"]["properties"]
            self.assertEqual(set(parameters), set(properties))
            for name, parameter in parameters.items():
                if name in tool["inputSchema"]["required"]:
                    self.assertIs(parameter.default, inspect.Parameter.empty, name)
                else:
                    self.assertEqual(parameter.default, properties[name].get("default"), name)

    def test_an_edit_takes_a_date_time_as_its_version(self) -> None:
        schema = KnowledgeBaseStore.TOOLS[2]["inputSchema"]
        self.assertEqual(schema["properties"]["expected_version"], {"type": "string", "format": "date-time"})

    def test_limits_hold_to_the_number(self) -> None:
        for fits in ("aa", "a" * 200):
            self.search(fits)
        for misfit in ("a", "a" * 201, ""):
            self.refused("invalid_arguments", self.search, misfit)
        for limit in (1, 20):
            self.search("refund", limit=limit)
        for limit in (0, 21, -1):
            self.refused("invalid_arguments", self.search, "refund", limit=limit)
        for limit in (1, 100):
            self.poll(limit=limit)
        for limit in (0, 101):
            self.refused("invalid_arguments", self.poll, limit=limit)
        self.poll(0)
        self.refused("invalid_arguments", self.poll, -1)

    def test_every_required_argument_is_required(self) -> None:
        for name, arguments in GOOD_CALLS.items():
            tool = next(tool for tool in KnowledgeBaseStore.TOOLS if tool["name"] == name)
            for argument in tool["inputSchema"]["required"]:
                less = {key: value for key, value in arguments.items() if key != argument}
                payload = self.refused("invalid_arguments", self.store.call, name, less)
                self.assertEqual(payload["arguments"], [{"name": argument, "message": f"{argument} is required"}])

    def test_what_people_do_is_no_tool(self) -> None:
        for name in ("create_article", "save_article", "retitle_article", "publish_article", "unpublish_article",
                     "create_knowledge_base", "save", "check", "close", "call", "results", "db"):  # fmt: skip
            self.refused("unknown_tool", self.store.call, name, {"knowledge_base_id": "kb"})


class Search(KnowledgeBaseCase):
    def test_a_result_cites_the_article_with_its_title_and_a_snippet(self) -> None:
        self.assertEqual(
            self.search("refund"),
            [
                {
                    "citation": {"knowledge_base_id": "kb", "article_id": "a", "updated_at": FIRST},
                    "title": "Refunds",
                    "snippet": "refund an order.",
                }
            ],
        )

    def test_a_result_cites_the_version_that_a_read_gives(self) -> None:
        self.edit("refund", self.version())
        self.assertEqual(self.search("refund")[0]["citation"], self.read()["citation"])
        self.store.save_article("kb", "a", "refund")
        self.assertEqual(self.search("refund")[0]["citation"], self.read()["citation"])

    def test_a_snippet_begins_at_the_longest_word_that_stands_in_the_text(self) -> None:
        self.store.save_article("kb", "a", "One and then Overdue payments, and so on. " + "x" * 500)
        self.assertEqual(self.search("and OVERDUE nowhere")[0]["snippet"][:21], "Overdue payments, and")
        self.assertEqual(len(self.search("overdue")[0]["snippet"]), SNIPPET)
        self.assertEqual(self.search("refunds")[0]["snippet"][:12], "One and then")
        self.assertEqual(len(self.search("refunds")[0]["snippet"]), SNIPPET)

    def test_a_snippet_begins_at_the_word_even_after_letters_that_grow_when_lowered(self) -> None:
        self.store.save_article("kb", "a", "İ" * 200 + " ticket first")
        self.assertIn("ticket", self.search("ticket")[0]["snippet"])

    def test_five_results_by_default_and_as_many_as_asked(self) -> None:
        for number in range(24):
            self.store.create_article("kb", f"Refunds {number}", "")
        self.assertEqual(len(self.search("refunds")), 5)
        self.assertEqual([len(self.search("refunds", limit=limit)) for limit in (1, 7, 20)], [1, 7, 20])

    def test_drafts_are_not_found(self) -> None:
        self.store.create_article("kb", "Refunds", "A draft", "draft", published=False)
        self.assertEqual(self.found("refunds draft"), ["a"])
        self.store.save_article("kb", "draft", "Still a draft")
        self.assertEqual(self.found("refunds draft"), ["a"])

    def test_a_query_without_a_word_finds_nothing(self) -> None:
        for query in ("  ", "--", '""', "**", "()", "?!", "__", "\n\n", "…—", "́́"):
            self.assertEqual(self.search(query), [], query)

    def test_any_text_is_a_legal_query(self) -> None:
        for query in (
            'refund"', '"refund', "refund AND", "OR refund", "NOT refund", "NEAR(refund order, 2)", "refund*",
            "^refund", "title:refund", "title : refund", "text:refund", "{text}: refund", "-refund", "refund + order",
            "(refund", "))", "'; DROP TABLE article; --", "%refund%", "__", "\\refund", "refund\n", "{refund}", "[re",
            "refund;", "refund--", "/*refund*/", "$refund", ":base", "?1 refund", "refund\u2028", "\ufeffrefund",
            "\U0001f600 refund", "refund " * 28, "ﬁ ½ Ⅷ ﷺ refund", "\U0010ffff refund",
        ):  # fmt: skip
            with self.subTest(query):
                self.assertIsInstance(self.search(query), list)
        self.assertEqual(self.found("'; DROP TABLE article; -- refund"), ["a"])

    def test_full_text_operators_are_words_like_others(self) -> None:
        self.store.create_article("kb", "Not and or near", "", "operators")
        self.assertEqual(self.found("NOT refund"), ["operators", "a"])
        self.assertEqual(self.found("NEAR"), ["operators"])
        self.assertEqual(self.found("refund*"), ["a"])
        self.assertEqual(self.found("refun*"), [])
        self.assertEqual(self.found("title:order"), ["a"])

    def test_a_search_writes_nothing_once_the_index_has_caught_up(self) -> None:
        self.search("refund")
        changes = self.store.db.total_changes
        self.search("refund")
        self.assertEqual(self.store.db.total_changes, changes)


class Reading(KnowledgeBaseCase):
    def test_a_read_returns_the_article_and_its_citation(self) -> None:
        self.assertEqual(
            self.read(),
            {
                "citation": {"knowledge_base_id": "kb", "article_id": "a", "updated_at": FIRST},
                "title": "Refunds",
                "content": "How to refund an order.",
            },
        )

    def test_any_content_comes_back_to_the_letter(self) -> None:
        for content in ("", " ", "a\r\nb\n", "\ufeff", "é≠e\u0301", "\U0001f600" * 3, "'\"\\%s{}", "x" * 1_000_000):
            self.edit(content, self.version())
            self.assertEqual(self.read()["content"], content)
            self.store.save_article("kb", "a", content)
            self.assertEqual(self.read()["content"], content)

    def test_unpublished_draft_and_unknown_are_the_same_to_the_letter(self) -> None:
        unknown = [self.refused("not_found", self.read, "x"), self.refused("not_found", self.edit, "", article_id="x")]
        self.store.create_article("kb", "Draft", "", "x", published=False)
        draft = [self.refused("not_found", self.read, "x"), self.refused("not_found", self.edit, "", article_id="x")]
        self.store.publish_article("kb", "x")
        self.store.unpublish_article("kb", "x")
        gone = [self.refused("not_found", self.read, "x"), self.refused("not_found", self.edit, "", article_id="x")]
        self.assertEqual(draft, unknown)
        self.assertEqual(gone, unknown)

    def test_the_log_names_drafts_but_never_shows_their_text(self) -> None:
        self.store.create_article("kb", "Hush title", "Hush content", "draft", published=False)
        self.store.save_article("kb", "draft", "Hush again", "Hush more")
        events = self.events(1)
        self.assertEqual(
            [(event["type"], event["article_id"]) for event in events], [("created", "draft"), ("retitled", "draft")]
        )
        self.assertEqual({len(event) for event in events}, {4})
        self.assertNotIn("Hush", json.dumps(events))

    def test_an_edit_of_a_draft_with_its_very_version_is_not_found(self) -> None:
        version = self.store.unpublish_article("kb", "a")["updated_at"]
        self.refused("not_found", self.edit, "", version)

    def test_every_tool_names_what_is_missing(self) -> None:
        """The knowledge base, if that is unknown; whether it is granted, too, makes no difference to the letter."""
        edit = {"content": "", "version": FIRST}
        for granted in (None, frozenset(["kb", "other"]), frozenset(["kb"])):
            self.store.granted = granted
            answers = [
                self.refused("not_found", self.read, "a", "other"),
                self.refused("not_found", self.edit, **edit, knowledge_base_id="other"),
                self.refused("not_found", self.search, "refund", "other"),
                self.refused("not_found", self.poll, base="other"),
            ]
            self.assertEqual(answers, [dict(not_found("knowledge_base", "other").payload)] * 4)
            for answer in (
                self.refused("not_found", self.read, "x"),
                self.refused("not_found", self.edit, **edit, article_id="x"),
            ):
                self.assertEqual(answer, not_found("article", "x").payload)

    def test_a_base_that_is_not_granted_is_unknown_to_the_letter(self) -> None:
        self.store.create_knowledge_base("granted")
        self.store.granted = frozenset(["granted"])

        def refusals() -> List[JSON]:
            return [
                self.refused("not_found", self.read, "a", "other"),
                self.refused("not_found", self.search, "refund", "other"),
                self.refused("not_found", self.poll, base="other"),
                self.refused("not_found", self.poll, 99, base="other"),
                self.refused("not_found", self.edit, "", knowledge_base_id="other"),
            ]

        unknown = refusals()
        self.store.create_knowledge_base("other")
        self.store.create_article("other", "Refunds", "", "a")
        self.assertEqual(refusals(), unknown)
        self.assertEqual(self.search("refund", "granted"), [])

    def test_a_replay_is_not_granted_either(self) -> None:
        self.edit("new", key="k")
        self.store.granted = frozenset()
        self.refused("not_found", self.edit, "new", key="k")

    def test_unpublished_is_gone_from_the_next_call_on(self) -> None:
        self.assertEqual(self.found("refund"), ["a"])
        self.store.unpublish_article("kb", "a")
        self.assertEqual(self.found("refund"), [])
        self.refused("not_found", self.read)
        self.store.publish_article("kb", "a")
        self.assertEqual(self.found("refund"), ["a"])
        self.read()


class Editing(KnowledgeBaseCase):
    def test_an_edit_returns_the_new_citation(self) -> None:
        self.now += 60
        result = self.edit("New text.")
        later = "2026-11-08T09:01:00.000000Z"
        citation = {"knowledge_base_id": "kb", "article_id": "a", "updated_at": later}
        self.assertEqual(result, {"citation": citation, "replayed": False})
        self.assertEqual(self.read(), {"citation": citation, "title": "Refunds", "content": "New text."})

    def test_an_edit_replaces_the_title_only_if_one_is_given(self) -> None:
        self.edit("New text.", title="Returns")
        self.assertEqual((self.read()["title"], self.read()["content"]), ("Returns", "New text."))
        self.edit("Newer text.", self.version())
        self.assertEqual(self.read()["title"], "Returns")

    def test_an_edit_appends_one_event_with_the_new_version(self) -> None:
        version = self.edit("New text.")["citation"]["updated_at"]
        self.assertEqual(self.events(1), [{"sequence": 2, "type": "saved", "article_id": "a", "updated_at": version}])
        version = self.edit("New text.", version, title="Returns")["citation"]["updated_at"]
        self.assertEqual(
            self.events(2), [{"sequence": 3, "type": "retitled", "article_id": "a", "updated_at": version}]
        )
        self.edit("New text.", version, title="Returns")
        self.assertEqual(self.events(3)[0]["type"], "saved")

    def test_an_edit_leaves_other_articles_alone(self) -> None:
        self.store.create_article("kb", "Other", "Other text.", "b")
        before = self.read("b")
        self.edit("New text.")
        self.assertEqual(self.read("b"), before)

    def test_an_edit_that_changes_nothing_is_a_save_like_any_other(self) -> None:
        article = self.read()
        self.edit(article["content"], title=article["title"])
        self.assertGreater(self.version(), FIRST)
        self.assertEqual(len(self.events()), 2)

    def test_conflict_does_not_hand_over_the_current_version(self) -> None:
        self.store.save_article("kb", "a", "The current text", "The current title")
        payload = self.refused("version_conflict", self.edit, "Mine")
        self.assertEqual(set(payload), {"error", "message"})
        for current in (self.version(), "current t"):
            self.assertNotIn(current, json.dumps(payload))

    def test_every_kind_of_save_makes_an_older_version_a_conflict(self) -> None:
        for save in (
            lambda: self.store.save_article("kb", "a", "text"),
            lambda: self.store.retitle_article("kb", "a", "Title"),
            lambda: self.store.publish_article("kb", "a"),
            lambda: (self.store.unpublish_article("kb", "a"), self.store.publish_article("kb", "a")),
            lambda: self.edit("text", self.version()),
        ):
            version = self.version()
            save()
            self.refused("version_conflict", self.edit, "Mine", version)

    def test_a_version_from_the_future_is_a_conflict(self) -> None:
        self.refused("version_conflict", self.edit, "Mine", "2026-11-08T09:00:00.000001Z")

    def test_after_a_conflict_a_fresh_read_and_its_version_save_the_edit(self) -> None:
        self.store.save_article("kb", "a", "Theirs")
        self.refused("version_conflict", self.edit, "Mine")
        fresh = self.read()
        self.edit(fresh["content"] + " Mine", fresh["citation"]["updated_at"])
        self.assertEqual(self.read()["content"], "Theirs Mine")

    def test_same_instant_written_differently_is_the_same_version(self) -> None:
        for same in (
            "2026-11-08T09:00:00Z", "2026-11-08T09:00:00.0Z", "2026-11-08T09:00:00.000Z", "2026-11-08T09:00:00+00:00",
            "2026-11-08T10:00:00+01:00", "2026-11-08T03:30:00.000000-05:30", "2026-11-09T08:59:00+23:59",
        ):  # fmt: skip
            store = self.store = self.open()
            store.create_knowledge_base("kb")
            store.create_article("kb", "Refunds", "", "a")
            with self.subTest(same):
                self.assertFalse(self.edit("New", same)["replayed"])
                self.refused("version_conflict", self.edit, "New", same)

    def test_another_instant_is_another_version_however_close(self) -> None:
        for other in ("2026-11-08T09:00:00.000001Z", "2026-11-08T08:59:59.999999Z", "2026-11-08T09:00:00+01:00"):
            self.refused("version_conflict", self.edit, "New", other)

    def test_what_is_no_date_time_is_no_version(self) -> None:
        for misfit in ("", "1", "2026-11-08", "2026-11-08T09:00:00", "now", FIRST + " ", FIRST.lower(), FIRST[:-1]):
            self.refused("invalid_arguments", self.edit, "New", misfit)

    def test_versions_rise_when_the_clock_stands_still(self) -> None:
        versions = [FIRST]
        for number in range(3):
            versions.append(self.edit("Text", versions[-1])["citation"]["updated_at"])
            versions.append(self.store.save_article("kb", "a", f"Text {number}")["updated_at"])
        self.assertEqual(versions, [f"2026-11-08T09:00:00.{number:06d}Z" for number in range(7)])

    def test_versions_rise_when_the_clock_runs_back(self) -> None:
        self.now -= 3600
        self.assertEqual(self.edit("Text")["citation"]["updated_at"], "2026-11-08T09:00:00.000001Z")
        self.now += 3601
        self.assertEqual(self.edit("Text", self.version())["citation"]["updated_at"], "2026-11-08T09:00:01.000000Z")

    def test_versions_rise_over_the_end_of_a_second_and_a_year(self) -> None:
        self.now = 1_798_761_599.999999  # the last microsecond of 2026, as near as a float comes
        version = self.store.save_article("kb", "a", "Text")["updated_at"]
        self.assertEqual(version[:20], "2026-12-31T23:59:59.")
        for _ in range(3):
            later = self.store.save_article("kb", "a", "Text")["updated_at"]
            self.assertGreater(later, version)
            version = later
        self.assertEqual(version[:20], "2027-01-01T00:00:00.")

    def test_versions_are_canonical_date_times(self) -> None:
        for self.now in (0.0, 1.5, 1e9 + 0.000001, 253_402_300_700.0):
            version = self.store.create_article("kb", "T", "")["updated_at"]
            self.assertEqual(canonical_time(version), version)


class IdempotencyKeys(KnowledgeBaseCase):
    def test_replay_returns_the_first_result(self) -> None:
        first = self.edit("Mine", key="k")
        self.store.save_article("kb", "a", "Theirs")
        self.now += 60
        self.assertEqual(self.edit("Mine", key="k"), {**first, "replayed": True})
        self.assertEqual(self.read()["content"], "Theirs")

    def test_replay_writes_no_event(self) -> None:
        self.edit("Mine", key="k")
        before = rows(self.store)
        for _ in range(3):
            self.assertTrue(self.edit("Mine", key="k")["replayed"])
        self.assertEqual(rows(self.store), before)

    def test_replay_does_not_depend_on_the_order_of_arguments(self) -> None:
        arguments = {**GOOD_CALLS["edit_knowledge_article"], "expected_version": FIRST}
        self.store.call("edit_knowledge_article", arguments)
        again = self.store.call("edit_knowledge_article", dict(reversed(list(arguments.items()))))
        self.assertTrue(again["replayed"])

    def test_replay_outlives_unpublishing(self) -> None:
        self.edit("Mine", key="k")
        self.store.unpublish_article("kb", "a")
        self.assertTrue(self.edit("Mine", key="k")["replayed"])

    def test_a_key_with_any_other_argument_is_refused(self) -> None:
        self.store.create_article("kb", "T", "", "b")
        self.edit("Mine", key="k")
        for other in (
            {"content": "Yours"}, {"content": "Mine "}, {"content": ""}, {"title": "Refunds"}, {"title": "x"},
            {"article_id": "b"}, {"article_id": "unknown"},
            {"expected_version": self.version()},
        ):  # fmt: skip
            arguments: JSON = {"content": "Mine", "key": "k", **other}
            self.refused("idempotency_key_reused", self.edit, arguments.pop("content"),
                         arguments.pop("expected_version", FIRST), arguments.pop("key"), **arguments)  # fmt: skip

    def test_the_same_key_in_another_base_is_another_key(self) -> None:
        self.store.create_knowledge_base("other")
        self.store.create_article("other", "T", "", "a")
        self.edit("Mine", key="k")
        for replayed in (False, True):
            self.assertIs(self.edit("Mine", key="k", knowledge_base_id="other")["replayed"], replayed)
        self.assertTrue(self.edit("Mine", key="k")["replayed"])

    def test_text_cannot_move_between_arguments_under_the_same_key(self) -> None:
        self.edit("Mine", key="k", title="Title")
        version = FIRST
        self.refused("idempotency_key_reused", self.edit, "Min", version, "k", title="eTitle")
        self.refused("idempotency_key_reused", self.edit, "MineTitle", version, "k")

    def test_another_key_is_another_edit(self) -> None:
        self.edit("Mine", key="k")
        self.refused("version_conflict", self.edit, "Mine", key="K")
        self.refused("version_conflict", self.edit, "Mine", key="k ")

    def test_refused_edit_leaves_no_trace_of_its_key(self) -> None:
        self.store.create_article("kb", "Draft", "", "draft", published=False)
        self.refused("version_conflict", self.edit, "Mine", "2020-01-01T00:00:00Z", key="k")
        self.refused("not_found", self.edit, "Mine", key="k", article_id="draft")
        self.refused("not_found", self.edit, "Mine", key="k", knowledge_base_id="unknown")
        self.refused("invalid_arguments", self.edit, "Mine", "soon", key="k")
        self.assertFalse(self.edit("Mine", key="k")["replayed"])

    def test_same_key_after_a_conflict_saves_the_corrected_edit(self) -> None:
        self.store.save_article("kb", "a", "Theirs")
        self.refused("version_conflict", self.edit, "Mine", key="k")
        self.assertFalse(self.edit("Theirs and mine", self.version(), key="k")["replayed"])
        self.assertTrue(self.edit("Theirs and mine", self.events()[1]["updated_at"], key="k")["replayed"])

    def test_an_error_halfway_takes_back_the_whole_edit(self) -> None:
        before = rows(self.store)
        for step in ("append_event", "record_key"):
            with (
                mock.patch.object(self.store, step, side_effect=ZeroDivisionError),
                self.assertRaises(ZeroDivisionError),
            ):
                self.edit("Mine", key="k", title="Title")
            self.assertEqual(rows(self.store), before)
            self.assertFalse(self.store.db.in_transaction)
        self.assertFalse(self.edit("Mine", key="k")["replayed"])


class ThePeoplesSide(KnowledgeBaseCase):
    def test_every_save_writes_one_event_of_its_own_type(self) -> None:
        store = self.store
        cited = [
            store.create_article("kb", "Draft", "", "b", published=False),
            store.save_article("kb", "b", "Text"),
            store.save_article("kb", "b", "Text", "Draft"),
            store.save_article("kb", "b", "Text", "Title"),
            store.retitle_article("kb", "b", "Other title"),
            store.publish_article("kb", "b"),
            store.unpublish_article("kb", "b"),
        ]
        types = ["created", "saved", "saved", "retitled", "retitled", "published", "unpublished"]
        self.assertEqual(
            self.events(1),
            [
                {"sequence": number, "type": kind, "article_id": "b", "updated_at": citation["updated_at"]}
                for number, (kind, citation) in enumerate(zip(types, cited), 2)
            ],
        )

    def test_each_save_changes_what_it_says_and_keeps_the_rest(self) -> None:
        def article() -> Any:
            columns = "SELECT title, content, published FROM article WHERE article_id = 'a'"
            return self.store.db.execute(columns).fetchone()

        self.store.save_article("kb", "a", "Text")
        self.assertEqual(article(), ("Refunds", "Text", 1))
        self.store.save_article("kb", "a", "", "Title")
        self.assertEqual(article(), ("Title", "", 1))
        self.store.retitle_article("kb", "a", "Other")
        self.assertEqual(article(), ("Other", "", 1))
        self.store.unpublish_article("kb", "a")
        self.assertEqual(article(), ("Other", "", 0))
        self.store.save_article("kb", "a", "Draft")
        self.store.retitle_article("kb", "a", "Drafted")
        self.assertEqual(article(), ("Drafted", "Draft", 0))
        self.store.publish_article("kb", "a")
        self.assertEqual(article(), ("Drafted", "Draft", 1))

    def test_each_save_returns_the_citation_that_a_read_gives(self) -> None:
        self.assertEqual(self.store.save_article("kb", "a", "Text"), self.read()["citation"])
        self.assertEqual(self.store.retitle_article("kb", "a", "T"), self.read()["citation"])
        self.assertEqual(self.store.publish_article("kb", "a"), self.read()["citation"])

    def test_a_save_that_changes_nothing_is_a_save(self) -> None:
        citations = [
            self.read()["citation"],
            self.store.save_article("kb", "a", self.read()["content"]),
            self.store.retitle_article("kb", "a", "Refunds"),
            self.store.publish_article("kb", "a"),
        ]
        versions = [citation["updated_at"] for citation in citations]
        self.assertEqual(versions, sorted(set(versions)))
        self.assertEqual([event["type"] for event in self.events(1)], ["saved", "saved", "published"])

    def test_the_store_makes_up_ids_in_order(self) -> None:
        made = [self.store.create_article("kb", "T", "")["article_id"] for _ in range(3)]
        self.assertEqual(made, ["a000002", "a000003", "a000004"])

    def test_an_id_that_an_import_took_is_not_made_up_again(self) -> None:
        self.store.create_article("kb", "T", "", "a000003")
        made = [self.store.create_article("kb", "T", "")["article_id"] for _ in range(3)]
        self.assertEqual(len({*made, "a000003"}), 4)

    def test_an_id_that_is_taken_is_refused_in_its_own_base_only(self) -> None:
        self.refused("invalid_arguments", self.store.create_article, "kb", "T", "", "a")
        self.store.create_knowledge_base("other")
        self.store.create_article("other", "T", "", "a")

    def test_making_a_base_again_leaves_it_as_it_is(self) -> None:
        before = rows(self.store)
        self.store.create_knowledge_base("kb")
        self.assertEqual(rows(self.store), before)

    def test_unknown_articles_and_bases_are_not_found(self) -> None:
        for base, article in (("kb", "unknown"), ("unknown", "a")):
            self.refused("not_found", self.store.save_article, base, article, "")
            self.refused("not_found", self.store.retitle_article, base, article, "T")
            self.refused("not_found", self.store.publish_article, base, article)
            self.refused("not_found", self.store.unpublish_article, base, article)
        self.refused("not_found", self.store.create_article, "unknown", "T", "")

    def test_people_are_refused_by_the_same_rules(self) -> None:
        for misfit in HOSTILE:
            if not isinstance(misfit, str) or not 1 <= len(misfit) <= 200 or misfit in ("\0", "\ud800"):
                with self.subTest(misfit=str(type(misfit))):
                    self.refused("invalid_arguments", self.store.create_knowledge_base, misfit)
                    self.refused("invalid_arguments", self.store.create_article, "kb", misfit, "")
                    if misfit is not None:
                        self.refused("invalid_arguments", self.store.create_article, "kb", "T", "", misfit)
                        self.refused("invalid_arguments", self.store.retitle_article, "kb", "a", misfit)


class ManyKnowledgeBases(KnowledgeBaseCase):
    """Beside `kb` stands `other`, with an article of the same id and the same words."""

    def setUp(self) -> None:
        super().setUp()
        self.store.create_knowledge_base("other")
        self.store.create_article("other", "Refunds elsewhere", "How to refund an order elsewhere.", "a")
        self.store.create_article("other", "Only here", "refund", "b")

    def test_a_search_sees_its_own_base_only(self) -> None:
        self.assertEqual(self.found("refund"), ["a"])
        self.assertEqual(self.search("refund")[0]["title"], "Refunds")
        self.assertEqual(self.found("refund", "other"), ["a", "b"])
        self.assertEqual(self.found("elsewhere"), [])

    def test_a_read_and_an_edit_reach_their_own_base_only(self) -> None:
        other = self.read("a", "other")
        self.edit("Mine", self.version())
        self.assertEqual(self.read("a", "other"), other)
        self.refused("not_found", self.read, "b")
        self.refused("not_found", self.edit, "", article_id="b")

    def test_a_persons_save_reaches_its_own_base_only(self) -> None:
        other = self.read("a", "other")
        self.store.save_article("kb", "a", "Text", "Title")
        self.store.unpublish_article("kb", "a")
        self.assertEqual(self.read("a", "other"), other)
        self.assertEqual(self.found("refund", "other"), ["a", "b"])

    def test_each_has_its_own_sequence(self) -> None:
        self.assertEqual([event["sequence"] for event in self.events(base="other")], [1, 2])
        self.edit("Mine")
        self.assertEqual([event["sequence"] for event in self.events()], [1, 2])
        self.assertEqual(self.poll(base="other")["latest_sequence"], 2)

    def test_each_makes_up_its_own_ids(self) -> None:
        self.assertEqual(self.store.create_article("kb", "T", "")["article_id"], "a000002")
        self.assertEqual(self.store.create_article("other", "T", "")["article_id"], "a000003")

    def test_ids_are_told_apart_to_the_letter(self) -> None:
        for base in ("KB", "kb ", "ｋｂ"):
            self.refused("not_found", self.read, "a", base)
        self.refused("not_found", self.read, "A")


class Hostile(KnowledgeBaseCase):
    def test_no_argument_of_any_kind_raises_anything_but_a_refusal(self) -> None:
        self.search("refund")  # the index has caught up
        before = rows(self.store)
        for name, arguments in GOOD_CALLS.items():
            for argument in [*arguments, "surprise"]:
                for value in HOSTILE:
                    with self.subTest(name, argument=argument, value=str(type(value))):
                        try:
                            result = self.store.call(name, {**arguments, argument: value})
                            json.dumps(result, allow_nan=False).encode()
                        except ToolError as refusal:
                            json.dumps(refusal.payload, allow_nan=False).encode()
                            str(refusal).encode()
        self.assertEqual(rows(self.store), before)

    def test_arguments_that_are_no_object_are_refused(self) -> None:
        for arguments in (None, [], "x", 5, [("query", "x")], (), object()):
            for name in GOOD_CALLS:
                self.refused("invalid_arguments", self.store.call, name, arguments)

    def test_a_tool_of_no_known_name_is_refused(self) -> None:
        for name in (None, 5, "", "Search_knowledge_base", "search_knowledge_base ", [], {}, "\ud800", object()):
            self.refused("unknown_tool", self.store.call, name, {})


class Constraints(KnowledgeBaseCase):
    def test_the_tables_refuse_bad_rows(self) -> None:
        article = "INSERT INTO article VALUES ({})"
        for row in (
            article.format("9, 'unknown', 'b', 'T', '', 1, '" + FIRST + "'"),
            article.format("9, 'kb', 'a', 'T', '', 1, '" + FIRST + "'"),
            article.format("4294967297, 'kb', 'b', 'T', '', 1, '" + FIRST + "'"),
            article.format("9, 'kb', 'b', 'T', '', 2, '" + FIRST + "'"),
            article.format("9, 'kb', 'b', 'T', '', NULL, '" + FIRST + "'"),
            article.format("9, 'kb', 'b', 'T', '', 1, '2026-11-08T09:00:00Z'"),
            article.format("9, 'kb', 'b', 'T', '', 1, NULL"),
            article.format("9, 'kb', 'b', NULL, '', 1, '" + FIRST + "'"),
            article.format("9, 'kb', 'b', 'T', NULL, 1, '" + FIRST + "'"),
            article.format("9, 'kb', NULL, 'T', '', 1, '" + FIRST + "'"),
            "INSERT INTO knowledge_base VALUES ('kb', 9, 0)",
            "INSERT INTO knowledge_base VALUES ('new', 1, 0)",
            "INSERT INTO knowledge_base VALUES (NULL, 9, 0)",
            "DELETE FROM knowledge_base",
        ):
            with self.subTest(row), self.assertRaises(sqlite3.IntegrityError):
                self.store.db.execute(row)
        self.store.db.execute(article.format("4294967298, 'kb', 'b', 'T', '', 0, '" + FIRST + "'"))
        self.store.db.execute("DELETE FROM article WHERE article_id = 'b'")


class Invariants(KnowledgeBaseCase):
    """Each way of spoiling a store is found out by the rule that names it."""

    SPOILERS = {
        "sequences of a resource are 1, 2, 3, … without a gap": "UPDATE event SET sequence = 9 WHERE sequence = 3",
        "an article's versions strictly increase along the log":
            "UPDATE event SET version = '2020-01-01T00:00:00.000000Z' WHERE sequence = 3",
        "every recorded key that names an event names one that exists": "UPDATE idempotency_key SET sequence = 9",
        "no event answers for two recorded keys":
            """INSERT INTO idempotency_key
               SELECT resource_type, resource_id, 'k2', fingerprint, result, sequence FROM idempotency_key""",
        "foreign keys hold": "DELETE FROM knowledge_base",
        "the file is sound": "UPDATE article SET published = 7",
        "an article's version is that of its last event":
            "UPDATE article SET updated_at = '2030-01-01T00:00:00.000000Z'",
        "every knowledge-base event is about an article that exists":
            "INSERT INTO event VALUES ('knowledge_base', 'kb', 4, 'saved', 'nobody', 'v')",
        "every recorded edit's result is its event":
            "UPDATE idempotency_key SET result = json_set(result, '$.citation.article_id', 'b')",
        "articles are numbered in their knowledge base's range, where a search looks for them":
            "UPDATE knowledge_base SET number = 2",
        "the index has followed no further than the log goes": "UPDATE knowledge_base SET indexed_sequence = 4",
    }  # fmt: skip
    INDEX_SPOILERS = (
        ("does not hold article number 4294967297", "UPDATE article SET content = 'Other'"),
        ("does not hold article number 4294967297", "UPDATE article SET title = 'Other'"),
        ("does not hold article number 4294967297", "DELETE FROM article_index"),
        ("does not hold article number 4294967297", "DELETE FROM article_index WHERE rowid % 2 = 0"),
        ("does not hold article number 4294967297", "DELETE FROM article_index WHERE rowid % 2 = 1"),
        ("does not hold article number 4294967297", "UPDATE article_index SET text = 'old' WHERE rowid % 2 = 0"),
        ("does not hold article number 4294967297", "UPDATE article_index SET text = 'old' WHERE rowid % 2 = 1"),
        ("holds what is not published", "INSERT INTO article_index (rowid, text) VALUES (9, 'a')"),
        ("holds what is not published", "UPDATE article SET published = 0"),
        ("does not hold article number 4294967297", "UPDATE article_index_content SET c0 = 'Other'"),
    )

    def setUp(self) -> None:
        super().setUp()
        self.edit("Mine", key="k")
        self.store.save_article("kb", "a", "Theirs")
        self.search("theirs")  # the index has caught up

    def tearDown(self) -> None:
        pass

    def spoil(self, statement: str) -> None:
        self.store.db.executescript(
            f"""DROP TRIGGER event_is_never_changed; DROP TRIGGER event_is_never_deleted;
            PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;
            {statement};
            PRAGMA ignore_check_constraints = OFF;"""
        )

    def test_a_sound_store_says_how_many_invariants_hold(self) -> None:
        self.assertEqual(self.store.check(), len(self.SPOILERS) + 1)

    def test_every_invariant_has_a_spoiler(self) -> None:
        self.assertEqual({rule for rule, _ in self.store.invariants()}, set(self.SPOILERS))

    def test_check_fails_for_each_spoiled_invariant(self) -> None:
        for rule, statement in self.SPOILERS.items():
            with self.subTest(rule):
                self.setUp()
                self.spoil(statement)
                self.store.index.check = lambda: None  # type: ignore[method-assign]
                with self.assertRaises(tool_store.CheckFailed) as failed:
                    self.store.check()
                self.assertIn(rule, str(failed.exception))

    def test_all_of_a_result_must_be_its_events(self) -> None:
        for member in ("$.citation.updated_at", "$.citation.knowledge_base_id", "$.replayed"):
            with self.subTest(member):
                self.setUp()
                self.spoil(f"UPDATE idempotency_key SET result = json_set(result, '{member}', 'x')")
                with self.assertRaisesRegex(tool_store.CheckFailed, "every recorded edit's result is its event"):
                    self.store.check()

    def test_two_events_with_one_version_are_found_out(self) -> None:
        self.spoil("UPDATE event SET version = (SELECT version FROM event WHERE sequence = 2) WHERE sequence = 3")
        with self.assertRaisesRegex(tool_store.CheckFailed, "an article's versions strictly increase"):
            self.store.check()

    def test_an_article_without_an_event_is_found_out(self) -> None:
        self.spoil(f"INSERT INTO article VALUES (9, 'kb', 'b', 'T', '', 0, '{FIRST}')")
        with self.assertRaisesRegex(tool_store.CheckFailed, "an article's version is that of its last event"):
            self.store.check()

    def test_check_fails_when_the_index_is_spoiled(self) -> None:
        for message, statement in self.INDEX_SPOILERS:
            with self.subTest(statement):
                self.setUp()
                self.spoil(statement)
                with self.assertRaisesRegex(tool_store.CheckFailed, message):
                    self.store.check()

    def test_all_broken_invariants_are_named_at_once(self) -> None:
        self.spoil("UPDATE event SET sequence = 9 WHERE sequence = 3; UPDATE idempotency_key SET sequence = 7")
        with self.assertRaises(tool_store.CheckFailed) as failed:
            self.store.check()
        self.assertIn("without a gap", str(failed.exception))
        self.assertIn("names one that exists", str(failed.exception))
