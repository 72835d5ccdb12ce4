"""What people do to channels and items, unique values, and a store that finds what is wrong with itself."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any, List

from arguments import ToolError
from field_schema import in_page
from record_store import RecordStore
from tests.record_case import BUG, BUGS, RecordCase, dump, field, options
from tool_store import CheckFailed


class People(RecordCase):
    def test_creating_updating_and_deleting_are_events(self) -> None:
        self.assertEqual(self.store.update_item("bugs", "bug-1", {"points": 3}), {"item_id": "bug-1", "version": 2})
        self.store.delete_item("bugs", "bug-1")
        self.assertEqual(
            [(event["type"], event["version"]) for event in self.events()],
            [("created", 1), ("updated", 2), ("deleted", 3)],
        )

    def test_updated_at_never_runs_back_with_the_clock(self) -> None:
        self.now -= 3600
        self.store.update_item("bugs", "bug-1", {"points": 3})
        self.assertEqual(self.read()["updated_at"], "2026-11-08T09:00:00.000001Z")

    def test_an_item_without_a_name_is_named_after_its_place(self) -> None:
        self.assertEqual(self.store.create_item("bugs", {**BUG, "ticket": "2"})["item_id"], "item-000002")

    def test_a_name_of_ones_own_never_blocks_a_later_item(self) -> None:
        self.store.create_item("bugs", {**BUG, "ticket": "2"}, "item-000003")
        self.assertEqual(self.store.create_item("bugs", {**BUG, "ticket": "3"})["item_id"], "item-000004")

    def test_a_taken_name_is_refused_even_after_a_delete(self) -> None:
        self.refused("invalid_arguments", self.store.create_item, "bugs", {**BUG, "ticket": "2"}, "bug-1")
        self.store.delete_item("bugs", "bug-1")
        self.refused("invalid_arguments", self.store.create_item, "bugs", {**BUG, "ticket": "2"}, "bug-1")
        self.refused("invalid_arguments", self.store.create_channel, "bugs", BUGS)

    def test_a_deleted_items_values_are_gone(self) -> None:
        self.store.delete_item("bugs", "bug-1")
        self.assertNotIn("Login fails", "".join(dump(self.store)))

    def test_people_too_are_told_what_is_not_there(self) -> None:
        self.refused("not_found", self.store.create_item, "unknown", BUG)
        self.refused("not_found", self.store.change_schema, "unknown", BUGS)
        self.refused("not_found", self.store.update_item, "bugs", "unknown", {})
        self.refused("not_found", self.store.delete_item, "bugs", "unknown")

    def test_peoples_arguments_are_checked_as_an_agents_are(self) -> None:
        unfit: List[Any] = [
            None, [], "x", {"title": "\0"}, {"title": "\ud800"}, {1: 2}, {"points": float("nan")}, {"points": 2**64},
            {"description": {"a", "b"}},
        ]  # fmt: skip
        for values in unfit:
            self.refused("invalid_arguments", self.store.update_item, "bugs", "bug-1", values)
            self.refused("invalid_arguments", self.store.create_item, "bugs", values)
        names: List[Any] = ["", "x" * 201, "\0", "\udfff", 5, None]
        for name in names:
            self.refused("invalid_arguments", self.store.delete_item, "bugs", name)
            self.refused("invalid_arguments", self.store.create_channel, name, BUGS)


class Unique(RecordCase):
    def test_a_value_is_held_by_one_item_at_a_time(self) -> None:
        payload = self.refused("validation_failed", self.store.create_item, "bugs", BUG)
        self.assertEqual(
            payload["fields"],
            [{"key": "ticket", "message": 'values.ticket must be unique, and another item has "BUG-1"'}],
        )
        self.store.create_item("bugs", {**BUG, "ticket": "BUG-2"}, "bug-2")
        self.refused("validation_failed", self.edit, {"ticket": "BUG-1"}, item_id="bug-2")

    def test_an_item_may_be_written_its_own_value_again(self) -> None:
        self.assertEqual(self.edit({"ticket": "BUG-1"})["version"], 2)

    def test_a_value_is_free_again_after_a_change(self) -> None:
        self.edit({"ticket": "BUG-9"})
        self.store.create_item("bugs", BUG)

    def test_a_value_is_free_again_after_a_delete(self) -> None:
        self.store.delete_item("bugs", "bug-1")
        self.store.create_item("bugs", BUG)

    def test_a_value_is_free_again_after_clearing_and_nothing_is_no_value(self) -> None:
        self.channel(field("code", "text", unique=True))
        self.store.create_item("other", {"code": "a"}, "one")
        self.store.update_item("other", "one", {"code": None})
        self.store.create_item("other", {"code": "a"}, "two")
        for nothing in (None, "", None, ""):
            self.store.create_item("other", {"code": nothing})

    def test_five_and_five_point_zero_are_one_number(self) -> None:
        self.channel(field("n", "number", unique=True))
        self.store.create_item("other", {"n": 5})
        self.refused("validation_failed", self.store.create_item, "other", {"n": 5.0})
        self.store.create_item("other", {"n": 5.5})

    def test_a_number_is_one_number_however_deep_it_stands(self) -> None:
        self.channel(field("j", "json", unique=True))
        for first, again in (([1], [1.0]), ({"a": 0}, {"a": -0.0}), ([{"a": [2**60]}], [{"a": [2.0**60]}])):
            self.store.create_item("other", {"j": first})
            self.refused("validation_failed", self.store.create_item, "other", {"j": again})
        for other in ([1, 1], [True], ["1"], [1.5], {"a": None}):
            self.store.create_item("other", {"j": other})

    def test_chosen_options_are_a_set_but_a_json_list_has_an_order(self) -> None:
        self.channel(field("m", "multi_select", options(a="A", b="B"), unique=True), field("j", "json", unique=True))
        self.store.create_item("other", {"m": ["a", "b"], "j": ["a", "b"]})
        self.refused("validation_failed", self.store.create_item, "other", {"m": ["b", "a"]})
        self.store.create_item("other", {"m": ["b"], "j": ["b", "a"]})
        item = self.store.create_item("other", {})["item_id"]
        self.refused("validation_failed", self.store.update_item, "other", item, {"m": ["b", "a"]})
        self.store.update_item("other", "item-000001", {"m": ["b", "a"]})  # its own

    def test_a_value_of_an_earlier_type_is_compared_too(self) -> None:
        self.channel(field("m", "json"))
        for value in ("text", [3, "a", {}, None], {"a": 1}, 5):
            self.store.create_item("other", {"m": value})
        self.store.change_schema("other", [field("m", "multi_select", options(a="A"), unique=True)])

    def test_text_is_compared_as_it_is(self) -> None:
        self.channel(field("t", "text", unique=True))
        for text in ("é", "e\u0301", "É", "é "):
            self.store.create_item("other", {"t": text})

    def test_channels_and_fields_do_not_share_values(self) -> None:
        self.channel(field("a", "text", unique=True), field("b", "text", unique=True))
        self.store.create_item("other", {"a": "x", "b": "x"})
        self.store.create_item("other", {"a": "y"})

    def test_threads_with_stores_of_their_own_never_both_get_a_value(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records.db")
            first = RecordStore(path)
            first.create_channel("bugs", BUGS)
            won: List[int] = []
            start = threading.Barrier(4)

            def worker(number: int) -> None:
                store = RecordStore(path)
                start.wait()
                for ticket in range(25):
                    try:
                        store.create_item("bugs", {**BUG, "ticket": f"T-{ticket}"}, f"{number}-{ticket}")
                        won.append(ticket)
                    except ToolError as refusal:
                        assert refusal.payload["error"] == "validation_failed", refusal
                store.close()

            threads = [threading.Thread(target=worker, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(won), list(range(25)))
            self.assertEqual(first.latest_sequence("bugs"), 25)
            first.check()
            first.close()


class Schemas(RecordCase):
    def test_items_that_no_longer_fit_stay_readable_and_editable(self) -> None:
        self.edit({"points": 13, "severity": "s2", "owner": "ren"})
        changed = [one for one in BUGS if one["key"] not in ("severity", "reporter")]
        changed[5] = field("points", "number", {"max": 5})
        changed.append(field("found", "boolean", required=True))
        self.store.change_schema("bugs", changed)
        self.assertEqual(self.page()["schema"], in_page(changed))
        preview = "status: new | owner: ren | ticket: BUG-1 | title: Login fails | points: 13"
        self.assertEqual(self.page()["items"][0]["preview"], preview)
        values = self.read()["values"]
        self.assertEqual(list(values), [one["key"] for one in changed])
        self.assertEqual((values["points"], values["found"]), (13, None))
        self.refused("validation_failed", self.edit, {"points": 13}, version=2)
        self.refused("validation_failed", self.edit, {"severity": "s1"}, version=2)
        self.edit({"owner": "mika"}, version=2)
        self.store.check()
        self.edit({"points": 4}, version=3)
        self.store.check()
        self.assertEqual(self.read()["values"]["points"], 4)

    def test_each_value_is_held_against_the_schema_it_was_written_under(self) -> None:
        self.edit({"points": 13})
        wider = [{**one, "config": {"min": 0, "max": 20}} if one["key"] == "points" else one for one in BUGS]
        self.store.change_schema("bugs", wider)
        self.edit({"points": 20}, version=2)
        self.store.check()
        self.store.change_schema("bugs", BUGS)
        self.edit({"owner": "ren"}, version=3)
        self.edit({"owner": "mika"}, version=4)
        self.store.check()
        self.assertEqual(self.read()["values"]["points"], 20)

    def test_a_removed_fields_value_comes_back_with_the_field(self) -> None:
        self.edit({"severity": "s2"})
        self.store.change_schema("bugs", [one for one in BUGS if one["key"] != "severity"])
        self.edit({"points": 4}, version=2)
        self.store.change_schema("bugs", BUGS)
        self.assertEqual(self.read()["values"]["severity"], "s2")

    def test_a_field_may_become_unique_unless_two_items_share_a_value(self) -> None:
        self.store.create_item("bugs", {**BUG, "ticket": "BUG-2"}, "bug-2")
        changed = [{**one, "is_unique": one["key"] == "title"} for one in BUGS]
        self.refused("invalid_arguments", self.store.change_schema, "bugs", changed)
        # The refused schema must not linger: this one gets the same version.
        self.edit({"title": "Another"}, item_id="bug-2")
        self.store.change_schema("bugs", changed)
        self.refused("validation_failed", self.edit, {"title": "Login fails"}, version=2, item_id="bug-2")
        self.edit({"ticket": "BUG-1"}, version=2, item_id="bug-2")
        self.assertEqual(self.page()["schema"], in_page(changed))

    def test_a_refused_schema_does_not_linger(self) -> None:
        self.store.create_item("bugs", {**BUG, "ticket": "BUG-2"}, "bug-2")
        refused = [{**one, "is_unique": one["key"] == "title"} for one in BUGS]
        self.refused("invalid_arguments", self.store.change_schema, "bugs", refused)
        self.store.change_schema("bugs", BUGS[:4])
        self.assertEqual(self.page()["schema"], in_page(BUGS[:4]))
        self.refused("validation_failed", self.edit, {"points": 5})

    def test_a_schema_that_another_process_changed_counts_at_once(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records.db")
            self.store = self.open(path)
            self.store.create_channel("bugs", BUGS)
            self.store.create_item("bugs", BUG, "bug-1")
            self.edit({"points": 13})
            other = RecordStore(path)
            other.change_schema("bugs", [field("points", "number", {"max": 5})])
            other.close()
            self.refused("validation_failed", self.edit, {"points": 13}, version=2)
            self.assertEqual(len(self.page()["schema"]), 1)
            self.store.close()
            self.store = self.open()


class Check(RecordCase):
    """Each way of spoiling a store must be found: a check that cannot fail proves nothing."""

    def spoiled(self, rule: str, *statements: str) -> None:
        self.edit({"points": 5})
        self.store.create_item("bugs", {**BUG, "ticket": "BUG-2"}, "bug-2")
        self.store.check()
        self.store.db.executescript(
            "PRAGMA foreign_keys = OFF; DROP TRIGGER event_is_never_changed; DROP TRIGGER event_is_never_deleted;"
            + ";".join(statements)
        )
        with self.assertRaises(CheckFailed) as caught:
            self.store.check()
        self.assertIn(rule, str(caught.exception))
        self.store = self.open()

    def test_finds_a_value_that_does_not_fit(self) -> None:
        self.spoiled(
            "values.points must be between 0 and 13",
            "UPDATE record_item SET item_values = replace(item_values, '5}', '50}')",
        )

    def test_finds_a_label_in_place_of_a_value(self) -> None:
        self.spoiled(
            "values.status must be one of",
            "UPDATE record_item SET item_values = replace(item_values, '\"new\"', '\"New\"')",
        )

    def test_finds_values_that_are_not_json(self) -> None:
        self.spoiled("not a JSON object", "UPDATE record_item SET item_values = '{'")
        self.setUp()
        self.spoiled("not a JSON object", "UPDATE record_item SET item_values = '5'")
        self.setUp()
        self.spoiled("not a JSON object", "UPDATE record_item SET item_values = item_values || '}'")

    def test_finds_values_that_json_does_not_have(self) -> None:
        for text in ('[["title", "a"]]', "[]", '"a"', '{"points": NaN}', "[" * 3000):
            self.setUp()
            self.spoiled("not a JSON object", f"UPDATE record_item SET item_values = '{text}'")

    def test_finds_earlier_schemas_that_never_were(self) -> None:
        for text in ("[]", "{", '{"title": 7}', '{"title": []}', '{"title": true}'):
            self.setUp()
            self.spoiled("earlier schemas", f"UPDATE record_item SET earlier_schemas = '{text}'")

    def test_finds_values_of_a_deleted_item(self) -> None:
        for column in ("item_values = '{\"points\": 5}'", "earlier_schemas = '{\"points\": 1}'", "preview = 'x'"):
            self.setUp()
            self.store.create_item("bugs", {**BUG, "ticket": "BUG-3"}, "bug-3")
            self.store.delete_item("bugs", "bug-3")
            self.spoiled("the file is sound", "PRAGMA ignore_check_constraints = ON",
                         f"UPDATE record_item SET {column} WHERE item_id = 'bug-3'",
                         "PRAGMA ignore_check_constraints = OFF")  # fmt: skip

    def test_finds_positions_against_the_order_of_creation(self) -> None:
        self.spoiled("positions follow", "UPDATE record_item SET position = 9 WHERE item_id = 'bug-1'")

    def test_finds_an_event_of_no_known_type(self) -> None:
        self.spoiled("the file is sound", "PRAGMA ignore_check_constraints = ON",
                     "UPDATE event SET type = 'x' WHERE sequence = 2",
                     "PRAGMA ignore_check_constraints = OFF")  # fmt: skip

    def test_finds_a_preview_of_other_values(self) -> None:
        self.spoiled("preview", "UPDATE record_item SET preview = 'status: fixed' WHERE item_id = 'bug-1'")

    def test_finds_a_version_that_no_event_tells_of(self) -> None:
        self.spoiled("version is that of its last event", "UPDATE record_item SET version = 9 WHERE item_id = 'bug-1'")

    def test_finds_a_deletion_that_no_event_tells_of(self) -> None:
        self.spoiled(
            "deleted",
            """UPDATE record_item SET deleted = 1, item_values = '{}', earlier_schemas = '{}', preview = ''
               WHERE item_id = 'bug-1'""",
        )

    def test_finds_an_item_without_events(self) -> None:
        self.spoiled("version is that of its last event", "DELETE FROM event WHERE sequence = 3")

    def test_finds_a_lost_item(self) -> None:
        self.spoiled("every event is of an item", "DELETE FROM record_unique WHERE item_id = 'bug-2'",
                     "DELETE FROM record_item WHERE item_id = 'bug-2'")  # fmt: skip

    def test_finds_versions_that_skip(self) -> None:
        self.spoiled(
            "versions 1, 2, 3",
            "UPDATE event SET version = 7 WHERE sequence = 2",
            "UPDATE record_item SET version = 7 WHERE item_id = 'bug-1'",
        )

    def test_finds_an_event_after_the_deletion(self) -> None:
        self.spoiled(
            "deleted if that event alone says so",
            "INSERT INTO event VALUES ('record_channel', 'bugs', 4, 'deleted', 'bug-2', 2)",
            "INSERT INTO event VALUES ('record_channel', 'bugs', 5, 'updated', 'bug-2', 3)",
            "UPDATE record_item SET version = 3 WHERE item_id = 'bug-2'",
        )

    def test_finds_an_item_that_was_never_created(self) -> None:
        self.spoiled("begin with created", "UPDATE event SET type = 'updated' WHERE sequence = 1")

    def test_finds_a_missing_claim(self) -> None:
        self.spoiled("missing", "DELETE FROM record_unique WHERE item_id = 'bug-2'")

    def test_finds_a_claim_to_a_value_the_item_does_not_have(self) -> None:
        self.spoiled("does not have", "INSERT INTO record_unique VALUES ('bugs', 'title', '\"x\"', 'bug-1')")

    def test_finds_a_key_whose_result_is_not_its_events(self) -> None:
        self.spoiled(
            "every recorded edit's result is its event",
            "UPDATE idempotency_key SET result = replace(result, '\"version\": 2', '\"version\": 3')",
        )

    def test_finds_a_key_whose_result_is_no_json(self) -> None:
        self.spoiled("every recorded edit's result is its event", "UPDATE idempotency_key SET result = '{'")

    def test_finds_a_key_that_changed_nothing_but_says_so_of_no_item(self) -> None:
        for broken in ("replace(result, 'bug-1', 'bug-9')", "replace(result, 'false', 'true')", "'{'"):
            self.edit({}, key="nothing")
            self.spoiled("names an item", f"UPDATE idempotency_key SET result = {broken} WHERE key = 'nothing'")
            self.setUp()

    def test_finds_a_key_whose_event_is_gone(self) -> None:
        self.spoiled("names an event", "UPDATE idempotency_key SET sequence = 77")

    def test_finds_a_missing_schema(self) -> None:
        self.spoiled("foreign keys", "DELETE FROM record_schema")
