"""The tools' rules: declarations, what a refusal says, what an edit does and leaves alone, pages, hostile calls."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

from arguments import JSON, ToolError
from field_schema import in_page
from record_store import RecordStore
from tests.record_case import BUG, BUGS, HOSTILE, STATUS, RecordCase, dump, field


class Declarations(RecordCase):
    def test_tools_are_declared_as_the_post_prints_them(self) -> None:
        tools = {tool["name"]: tool for tool in RecordStore.TOOLS}
        listing, reading, editing = list(tools.values())[:3]
        self.assertEqual(list(tools), [
            "list_record_items", "read_record_item", "edit_record_item", "poll_resource_events"])  # fmt: skip
        self.assertEqual(
            listing["description"],
            "List the schema and a bounded page of item previews from one granted record channel. "
            "Use read_record_item for the complete values.",
        )
        self.assertEqual(listing["inputSchema"]["required"], ["record_channel_id"])
        self.assertEqual(
            listing["inputSchema"]["properties"],
            {
                "record_channel_id": {"type": "string"},
                "before_id": {"type": "string"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50},
            },
        )
        self.assertEqual(listing["annotations"], {"readOnlyHint": True})
        self.assertEqual(
            reading["description"], "Read one item by ID from a granted record channel and return its current version."
        )
        self.assertEqual(reading["inputSchema"]["required"], ["record_channel_id", "item_id"])
        self.assertEqual(
            editing["description"],
            "Update validated fields in one record item. Supply the version from read_record_item; "
            "concurrent changes are rejected.",
        )
        self.assertEqual(
            editing["inputSchema"]["required"],
            ["record_channel_id", "item_id", "values", "expected_version", "idempotency_key"],
        )
        self.assertEqual(editing["inputSchema"]["properties"]["values"], {"type": "object"})
        self.assertEqual(editing["annotations"], {"readOnlyHint": False, "destructiveHint": True})
        self.assertEqual(editing["securitySchemes"], [{"type": "oauth2", "scopes": ["osfoundry:write"]}])

    def test_schema_changes_creation_and_deletion_are_no_tools(self) -> None:
        for name in ("create_channel", "change_schema", "create_item", "update_item", "delete_item", "check"):
            self.refused("unknown_tool", self.store.call, name, {})

    def test_an_unknown_level_of_refusal_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            RecordStore(refusal="verbose")


class Refusals(RecordCase):
    POST_EDIT = {"age_days": 3, "due": "Friday", "points": 20, "owner": "Aiko", "status": "In progress"}
    POST_REFUSAL = (
        r'{"error": "validation_failed", "fields": ['
        r'{"key": "status", "message": "values.status must be one of the option values, got \"In progress\"", '
        r'"allowed": ["new", "triaged", "in_progress", "fixed", "wont_fix"]}, '
        r'{"key": "owner", "message": "values.owner must be one of the option values, got \"Aiko\"", '
        r'"allowed": ["aiko", "mika", "ren"]}, '
        r'{"key": "points", "message": "values.points must be between 0 and 13, got 20", "min": 0, "max": 13}, '
        r'{"key": "due", "message": "values.due must be a date as YYYY-MM-DD, got \"Friday\""}, '
        r'{"key": "age_days", "message": "values.age_days is a formula field and is computed, not written"}]}'
    )

    def payload(self, level: str, values: Optional[JSON] = None) -> JSON:
        self.store.refusal = level
        return self.refused("validation_failed", self.edit, values or self.POST_EDIT)

    def test_the_posts_refusal_comes_out_byte_for_byte(self) -> None:
        self.assertEqual(json.dumps(self.payload("values")), self.POST_REFUSAL)

    def test_terse_says_no_more_than_that_it_failed(self) -> None:
        self.assertEqual(self.payload("terse"), {"error": "validation_failed"})

    def test_field_says_which_keys(self) -> None:
        keys = [{"key": key} for key in ("status", "owner", "points", "due", "age_days")]
        self.assertEqual(self.payload("field"), {"error": "validation_failed", "fields": keys})

    def test_labels_adds_each_options_label_and_nothing_else(self) -> None:
        expected = json.loads(self.POST_REFUSAL)
        for refused, labels in zip(expected["fields"], (STATUS, BUGS[4]["config"])):
            refused["allowed"] = [{"value": o["value"], "label": o["label"]} for o in labels["options"]]
        self.assertEqual(self.payload("labels"), expected)

    def test_labels_is_the_default(self) -> None:
        self.assertEqual(RecordStore().refusal, "labels")

    def test_unknown_keys_fail_after_the_schemas_own(self) -> None:
        payload = self.payload("values", {"colour": "red", "points": 99, "Status": "new"})
        self.assertEqual([refused["key"] for refused in payload["fields"]], ["points", "colour", "Status"])
        self.assertEqual(payload["fields"][1]["message"], "values.colour is not a field of this channel")

    def test_a_flood_of_unknown_keys_gets_a_short_answer(self) -> None:
        for level in ("field", "values", "labels"):
            payload = self.payload(level, {"k" * 500 + str(number): number for number in range(1500)})
            self.assertLess(len(json.dumps(payload)), 10_000)

    def test_one_failing_field_refuses_the_whole_edit(self) -> None:
        self.refused("validation_failed", self.edit, {"status": "fixed", "owner": "Aiko"})
        self.assertEqual(self.read()["values"]["status"], "new")

    def test_people_are_refused_by_the_same_rules(self) -> None:
        self.store.refusal = "values"
        payload = self.refused("validation_failed", self.store.update_item, "bugs", "bug-1", self.POST_EDIT)
        self.assertEqual(json.dumps(payload), self.POST_REFUSAL)


class Edits(RecordCase):
    def test_an_edit_merges_and_leaves_the_rest_of_the_item(self) -> None:
        before = self.read()["values"]
        self.now += 60
        result = self.edit({"status": "triaged", "points": 5})
        self.assertEqual(
            result,
            {
                "record_channel_id": "bugs", "item_id": "bug-1", "version": 2,
                "updated_at": "2026-11-08T09:01:00.000000Z", "replayed": False,
            },
        )  # fmt: skip
        after = self.read()
        self.assertEqual(after["values"], {**before, "status": "triaged", "points": 5})
        self.assertEqual((after["version"], after["created_at"]), (2, "2026-11-08T09:00:00.000000Z"))

    def test_an_edit_appends_one_event_with_the_new_version(self) -> None:
        self.edit({"points": 5})
        self.assertEqual(self.events(after=1), [{"sequence": 2, "type": "updated", "item_id": "bug-1", "version": 2}])

    def test_a_stale_version_is_a_conflict_that_hands_nothing_over(self) -> None:
        self.store.update_item("bugs", "bug-1", {"points": 7})
        self.store.update_item("bugs", "bug-1", {"points": 8})
        payload = self.refused("version_conflict", self.edit, {"points": 5}, version=1)
        self.assertEqual(set(payload), {"error", "message"})
        self.assertNotIn("3", payload["message"])

    def test_a_conflict_shows_an_id_as_other_refusals_do(self) -> None:
        name = 'x"\n' + "y" * 100
        self.store.create_item("bugs", {**BUG, "ticket": "BUG-2"}, name)
        message = self.refused("version_conflict", self.edit, {}, version=2, item_id=name)["message"]
        self.assertTrue(message.startswith(r'"x\"\nyyy'), message)
        self.assertLess(len(message), 200)

    def test_a_version_from_the_future_is_a_conflict(self) -> None:
        self.refused("version_conflict", self.edit, {"points": 5}, version=2)

    def test_a_conflict_is_found_before_values_are_looked_at(self) -> None:
        self.refused("version_conflict", self.edit, {"points": 99}, version=2)

    def test_replay_returns_the_first_result(self) -> None:
        first = self.edit({"points": 5}, key="k")
        self.store.update_item("bugs", "bug-1", {"points": 7})
        self.assertEqual(self.edit({"points": 5}, key="k"), {**first, "replayed": True})
        self.assertEqual(self.read()["values"]["points"], 7)

    def test_replay_writes_no_event(self) -> None:
        self.edit({"points": 5}, key="k")
        before = dump(self.store)
        self.edit({"points": 5}, key="k")
        self.assertEqual(dump(self.store), before)

    def test_replay_does_not_depend_on_the_order_of_keys(self) -> None:
        self.edit({"points": 5, "owner": "ren"}, key="k")
        self.assertTrue(self.edit({"owner": "ren", "points": 5}, key="k")["replayed"])

    def test_replay_outlives_the_item(self) -> None:
        self.edit({"points": 5}, key="k")
        self.store.delete_item("bugs", "bug-1")
        self.assertTrue(self.edit({"points": 5}, key="k")["replayed"])

    def test_a_key_with_any_other_argument_is_refused(self) -> None:
        self.store.create_item("bugs", {**BUG, "ticket": "BUG-2"}, "bug-2")
        self.edit({"points": 1}, key="k")
        self.refused("idempotency_key_reused", self.edit, {"points": 2}, key="k")
        self.refused("idempotency_key_reused", self.edit, {"points": 1.0}, key="k")
        self.refused("idempotency_key_reused", self.edit, {"points": True}, key="k")
        self.refused("idempotency_key_reused", self.edit, {}, key="k")
        self.refused("idempotency_key_reused", self.edit, {"points": 1}, key="k", version=2)
        self.refused("idempotency_key_reused", self.edit, {"points": 1}, key="k", item_id="bug-2")

    def test_a_refused_edit_leaves_its_key_free(self) -> None:
        self.refused("validation_failed", self.edit, {"points": 20}, key="k")
        self.refused("version_conflict", self.edit, {"points": 5}, version=9, key="k")
        self.assertFalse(self.edit({"points": 5}, key="k")["replayed"])

    def test_no_values_change_nothing_but_use_the_key(self) -> None:
        before = self.read()
        result = self.edit({}, key="k")
        self.assertEqual((result["version"], result["updated_at"]), (1, before["updated_at"]))
        self.assertEqual(self.read(), before)
        self.assertEqual(len(self.events()), 1)
        self.assertTrue(self.edit({}, key="k")["replayed"])
        self.refused("version_conflict", self.edit, {}, version=2)

    def test_what_many_edits_add_up_to_is_bounded(self) -> None:
        """Removed fields' values count too, since they are kept."""
        fields = [field(key, "text") for key in "abcd"]
        self.channel(*fields)
        self.store.create_item("other", {}, "one")
        edit = {"item_id": "one", "record_channel_id": "other"}
        for version, key in enumerate("ab", 1):
            self.edit({key: "x" * 990_000}, version, **edit)
        self.store.change_schema("other", fields[1:])
        for act, arguments in (
            (self.edit, ({"c": "x" * 20_000}, 3)),
            (self.store.update_item, ("other", "one", {"c": "x" * 20_000})),
            (self.store.create_item, ("other", {"c": "\x01" * 400_000})),  # each is six characters of JSON
        ):
            payload = self.refused("invalid_arguments", act, *arguments, **(edit if act == self.edit else {}))
            self.assertRegex(payload["arguments"][0]["message"], "^values would make the item .* more than 2000000$")
        self.edit({"c": "x" * 10_000}, 3, **edit)
        self.edit({"b": "", "d": "x" * 900_000}, 4, **edit)

    def test_updated_at_never_runs_back_with_the_clock(self) -> None:
        self.now -= 3600
        self.assertEqual(self.edit({"points": 5})["updated_at"], "2026-11-08T09:00:00.000001Z")

    def test_unknown_deleted_and_not_granted_are_the_same_to_an_agent(self) -> None:
        self.store.create_item("bugs", {**BUG, "ticket": "BUG-2"}, "gone")
        self.store.delete_item("bugs", "gone")
        for item_id in ("gone", "unknown"):
            self.refused("not_found", self.read, item_id)
            self.refused("not_found", self.edit, {"points": 99}, version=9, item_id=item_id)
        self.refused("not_found", self.edit, {}, record_channel_id="unknown")
        self.edit({"points": 5}, key="k")
        self.store.granted = frozenset(["unknown"])
        unknown = self.refused("not_found", self.read, "bug-1", "unknown")
        hidden = self.refused("not_found", self.read)
        self.assertEqual(hidden["message"], unknown["message"].replace('"unknown"', '"bugs"'))
        self.refused("not_found", self.edit, {"points": 5}, key="k")
        self.refused("not_found", self.page)
        self.refused("not_found", self.events)

    def test_an_agents_edit_and_a_persons_never_overwrite_each_other_unseen(self) -> None:
        version = self.read()["version"]
        self.store.update_item("bugs", "bug-1", {"status": "in_progress"})
        self.refused("version_conflict", self.edit, {"status": "fixed"}, version=version)
        self.assertEqual(self.read()["values"]["status"], "in_progress")


class Pages(RecordCase):
    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.store.create_item("bugs", {**BUG, "ticket": f"BUG-{number}"}, f"bug-{number}")

    def test_the_schema_comes_with_every_page(self) -> None:
        for arguments in ({}, {"before_id": "bug-1"}, {"limit": 1}):
            self.assertEqual(self.page(**arguments)["schema"], in_page(BUGS))

    def test_a_page_is_the_callers_own(self) -> None:
        self.page()["schema"][6]["config"]["max"] = 99
        self.assertEqual(self.page()["schema"], in_page(BUGS))
        self.refused("validation_failed", self.edit, {"points": 99})

    def test_pages_run_from_the_newest_and_each_item_is_on_one(self) -> None:
        self.add(*range(2, 8))
        page = self.page(limit=3)
        pages = [[item["item_id"] for item in page["items"]]]
        while page["next_before_id"] is not None:
            page = self.page(limit=3, before_id=page["next_before_id"])
            pages.append([item["item_id"] for item in page["items"]])
        self.assertEqual(pages, [["bug-7", "bug-6", "bug-5"], ["bug-4", "bug-3", "bug-2"], ["bug-1"]])

    def test_a_page_that_ends_with_the_last_item_has_no_next(self) -> None:
        self.add(2, 3)
        self.assertIsNone(self.page(limit=3)["next_before_id"])
        self.assertEqual(self.page(limit=2)["next_before_id"], "bug-2")

    def test_an_empty_channel_has_a_schema_and_no_items(self) -> None:
        self.store.create_channel("empty", BUGS)
        page = self.store.call("list_record_items", {"record_channel_id": "empty"})
        self.assertEqual((page["schema"], page["items"], page["next_before_id"]), (in_page(BUGS), [], None))

    def test_fifty_items_at_most_and_by_default(self) -> None:
        self.add(*range(2, 60))
        self.assertEqual(len(self.page()["items"]), 50)
        self.refused("invalid_arguments", self.page, limit=51)
        self.refused("invalid_arguments", self.page, limit=0)

    def test_a_cursor_keeps_its_place_when_items_are_added_or_deleted_even_its_own(self) -> None:
        self.add(2, 3, 4, 5, 6)
        cursor = self.page(limit=3)["next_before_id"]
        self.add(7)
        for gone in ("bug-6", cursor, "bug-2"):
            self.store.delete_item("bugs", gone)
        self.assertEqual(self.ids(before_id=cursor), ["bug-3", "bug-1"])

    def test_an_item_edited_between_two_pages_is_still_listed(self) -> None:
        self.add(2, 3)
        cursor = self.page(limit=1)["next_before_id"]
        self.edit({"points": 3})
        self.assertEqual(self.ids(before_id=cursor), ["bug-2", "bug-1"])

    def test_a_cursor_of_another_channel_is_not_found(self) -> None:
        self.store.create_channel("other", BUGS)
        self.store.create_item("other", BUG, "theirs")
        for cursor in ("theirs", "never", "", "\u00e9", "' OR 1=1 --"):
            self.refused("not_found", self.page, before_id=cursor)

    def test_a_page_reads_its_items_through_the_index_without_sorting(self) -> None:
        statements: List[str] = []
        self.store.db.set_trace_callback(statements.append)
        self.page()
        self.store.db.set_trace_callback(None)
        [listing] = [statement for statement in statements if "preview" in statement]
        plan = " / ".join(row[3] for row in self.store.db.execute("EXPLAIN QUERY PLAN " + listing))
        self.assertIn("record_item_page", plan)
        self.assertNotIn("TEMP B-TREE", plan)
        self.assertNotIn("SCAN", plan)

    def preview(self, **values: Any) -> str:
        self.store.update_item("bugs", "bug-1", values)
        preview: str = self.page()["items"][0]["preview"]
        return preview

    def test_a_preview_has_selects_first_then_the_rest_in_schema_order_and_no_empties(self) -> None:
        self.assertEqual(
            self.preview(severity="s2", points=0, description=""),
            "status: new | severity: s2 | ticket: BUG-1 | title: Login fails | points: 0",
        )

    def test_a_preview_has_at_most_120_characters(self) -> None:
        preview = self.preview(description="x" * 4000)
        self.assertEqual(len(preview), 120)
        self.assertTrue(preview.endswith("xx…"))
        room = 120 - len(self.preview(description="") + " | description: ")
        self.assertTrue(self.preview(description="x" * room).endswith("xxx"))

    def test_a_preview_has_no_control_characters_and_runs_one_way(self) -> None:
        hidden = "\x1b[31m\x07\x7f\x9b\u061c\u200e\u200f\u202a\u202e\u2066\u2069"
        preview = self.preview(title=f"a{hidden}b{hidden}", description="नमस्ते می\u200cخواهم 👩\u200d👧")
        self.assertIn("title: a [31m b [31m | description: नमस्ते می\u200cخواهم 👩\u200d👧", preview)

    def test_spaces_in_a_row_are_one_in_a_preview_whatever_else_is_in_it(self) -> None:
        for space in ("  ", " \u00a0", "\u00a0", "\t  \n", "\u3000 "):
            self.assertIn("title: x y | description: p q", self.preview(title=f"x{space}y", description="p  q"))

    def test_a_preview_is_one_line(self) -> None:
        self.assertIn("title: a b c | ", self.preview(title="a\nb\r\n\t c", points=1))


class Hostile(RecordCase):
    def test_no_argument_of_any_kind_raises_anything_but_a_refusal(self) -> None:
        deep: Any = []
        for _ in range(5000):
            deep = [deep]
        good: Dict[str, JSON] = {
            "list_record_items": {"record_channel_id": "bugs", "before_id": "bug-1", "limit": 5},
            "read_record_item": {"record_channel_id": "bugs", "item_id": "bug-1"},
            "edit_record_item": {
                "record_channel_id": "bugs", "item_id": "bug-1", "values": {"points": 99},
                "expected_version": 1, "idempotency_key": "k",
            },
            "poll_resource_events": {
                "resource_type": "record_channel", "resource_id": "bugs", "after_sequence": 99, "limit": 5,
            },
        }  # fmt: skip
        before = dump(self.store)
        for name, arguments in good.items():
            for argument in [*arguments, "surprise"]:
                for value in [*HOSTILE, deep, {"points": deep}]:
                    if (argument, value) == ("values", {}):
                        continue  # an edit with no values is no refusal
                    with self.subTest(name, argument=argument, value=str(type(value))):
                        try:
                            self.store.call(name, {**arguments, argument: value})
                        except ToolError as refusal:
                            json.dumps(refusal.payload, allow_nan=False).encode()
        self.assertEqual(dump(self.store), before)

    def test_a_hostile_key_is_an_unknown_field(self) -> None:
        for key in ("", "x" * 5000, '"', "values", "__class__", "status ", "ѕtatus", "\n", "item_values"):
            payload = self.refused("validation_failed", self.edit, {key: 1})
            self.assertEqual(len(payload["fields"]), 1)
