"""The 16 field types, each both ways, and what makes a schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, List, Tuple

from arguments import JSON, ToolError
from field_schema import in_page
from field_types import TYPES
from tests.record_case import HOSTILE, RecordCase, field, options

README = Path(__file__).parent.parent / "README.md"

TAGS = options(red="Red", blue="Blue")
FILE = {"name": "a.pdf", "url": "https://example.com/a.pdf"}

# type: (config, values that fit, values that do not)
VALUES: Dict[str, Any] = {
    "text": ({"max_length": 5}, ["", "abcde", "日本語です"], ["abcdef", 5, True, ["a"], {"a": 1}]),
    "number": ({"min": 0, "max": 13}, [0, 13, 5.5, 5.0], [-1, 14, 13.01, "5", True, [5], 2**62]),
    "date": ({}, ["2026-11-08", "2024-02-29", "0001-01-01"],
             ["Friday", "2026-02-29", "2026-11-8", "20261108", "2026-W45-7", "2026-11-08T00:00:00Z", "٢٠٢٦-١١-٠٨",
              "2026-11-08\n", "0000-01-01", 20261108, True]),
    "boolean": ({}, [True, False], [1, 0, "true", 1.0, [], "yes"]),
    "email": ({}, ["aiko@example.com", "a.b+c@mail.example.co.jp", "é@exämple.it"],
              ["aiko", "aiko@example", "a b@example.com", "a@b@c.com", "@example.com", "a@.com", "a@example.com\n",
               "Aiko <aiko@example.com>", "a@" + "b." * 150 + "com", "x" * 65 + "@example.com", 5, ""]),
    "phone": ({}, ["+39 06 1234 5678", "(555) 010-0199", "5550100", "+1.555.010.0199"],
              ["call me", "123", "1" * 16, "+39 06 1234 5678 x9", "++39 06 1234 5678", "٥٥٥٠١٠٠١",
               "5550100" + " " * 40, 5550100, ""]),
    "url": ({}, ["https://example.com", "http://localhost:8080/a?b=c#d", "HTTPS://EXAMPLE.COM/à", "https://[::1]/"],
            ["example.com", "javascript:alert(1)", "ftp://example.com", "https://", "https:///a", "https://a b.com",
             "https://bank.com@evil.com/", "https://example.com/a b", "https://example.com\n",
             "https://x.com/" + "a" * 2048, "https://bank.com\\@evil.com", 5, ""]),
    "select": (TAGS, ["red", "blue"], ["Red", "RED", " red", "green", "", 0, True, ["red"], {"value": "red"}]),
    "multi_select": (TAGS, [["red"], ["blue", "red"], []],
                     [["Red"], ["red", "red"], "red", ["red", 1], [["red"]], ["red"] * 5000, {"red": True}]),
    "currency": ({"min": 0, "currency": "EUR"}, [0, 19.99, 10**12], [-0.01, "19.99", "€5", True, {"amount": 5}]),
    "percentage": ({}, [0, 12.5, 100], [-1, 100.1, "12%", True]),
    "rating": ({"max_stars": 3}, [1, 3], [0, 4, 2.0, 2.5, "3", True]),
    "relation": ({"record_channel_id": "bugs"}, ["bug-1"], ["bug-2", "", 1, ["bug-1"], "x" * 5000]),
    "file": ({}, [FILE, {**FILE, "size": 0, "media_type": "application/pdf"}],
             ["a.pdf", {"name": "a"}, {**FILE, "path": "/etc"}, {**FILE, "name": "../a"}, {**FILE, "name": ""},
              {**FILE, "url": "file:///etc/passwd"}, {**FILE, "size": -1}, {**FILE, "size": True},
              {**FILE, "size": 1.0}, {**FILE, "media_type": 5}, {**FILE, "name": None}, [FILE], {}]),
    "json": ({}, [{"a": [1, 2.5, None, True]}, [], "text", 0, False, {}], []),
    "formula": ({"expression": "1 + 1"}, [], [2, 0, "2", "", None, [], {}]),
}  # fmt: skip


def readmes_table() -> Dict[str, Tuple[str, str]]:
    """{type: (its config, a valid value)} as the README has it."""
    section = README.read_text(encoding="utf-8").split("## A valid value of each field type")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {kind: (config, valid) for kind, config, valid in rows[2:]}


class Readme(RecordCase):
    """The table of all types is there and nowhere else."""

    def test_it_has_each_type_in_order_with_its_config(self) -> None:
        table = readmes_table()
        self.assertEqual(list(table), list(TYPES))
        for kind, (config, _) in table.items():
            names = re.findall(r"[a-z_]+", re.sub(r"\(.*?\)|`.*?`", "", config))
            self.assertEqual(sorted(names), sorted(TYPES[kind].config), kind)

    def test_the_config_in_bold_is_required(self) -> None:
        for kind, (config, _) in readmes_table().items():
            given, required = VALUES[kind][0], re.findall(r"\*\*(\w+)\*\*", config)
            for name in TYPES[kind].config:
                fields = [field("it", kind, {key: value for key, value in given.items() if key != name})]
                if name in required:
                    self.refused("invalid_arguments", self.store.create_channel, "new", fields)
                else:
                    self.store.create_channel(f"{kind} without {name}", fields)

    def test_its_limits_are_the_limits(self) -> None:
        longest_values = {
            "text": "x" * 1_000_000,
            "email": "x@" + "y." * 124 + "yyyy",
            "phone": "0123456789" + "." * 30,
            "url": "https://x.com/" + "a" * 2034,
        }
        for kind, longest in longest_values.items():
            self.assertIn(f"{len(longest):,}", readmes_table()[kind][1])
            check = TYPES[kind].check(kind, {})
            self.assertIsNone(check(longest), kind)
            self.assertIsNotNone(check(longest + longest[-1]), kind)


class Types(RecordCase):
    def test_each_of_the_16_types_is_tested(self) -> None:
        self.assertEqual(len(VALUES), 16)

    def test_a_value_that_fits_is_stored_as_it_is_and_read_back_the_same(self) -> None:
        for kind, (config, valid, _) in VALUES.items():
            self.channel(field("it", kind, config), name=kind)
            for number, value in enumerate(valid):
                with self.subTest(kind, value=value):
                    self.store.create_item(kind, {"it": value}, f"{number}")
                    read = self.read(f"{number}", kind)["values"]["it"]
                    self.assertEqual((read, type(read)), (value, type(value)))

    def test_a_value_that_does_not_fit_is_refused_and_named(self) -> None:
        for kind, (config, _, invalid) in VALUES.items():
            self.channel(field("it", kind, config), name=kind)
            self.store.create_item(kind, {}, "one")
            for value in invalid:
                with self.subTest(kind, value=value):
                    payload = self.refused("validation_failed", self.store.update_item, kind, "one", {"it": value})
                    [refused] = payload["fields"]
                    self.assertEqual(refused["key"], "it")
                    self.assertTrue(refused["message"].startswith("values.it "), refused)
                    self.assertLess(len(refused["message"]), 300)

    def test_a_json_field_takes_nothing_that_is_not_json(self) -> None:
        self.channel(field("it", "json"))
        self.store.create_item("other", {}, "one")
        hostile: List[Any] = [float("nan"), {"a": "\ud800"}, {1: 2}, 2**64, {"a": {1}}, [[[]] * 5000] * 3]
        for value in hostile:
            self.refused("invalid_arguments", self.store.update_item, "other", "one", {"it": value})

    def test_null_clears_a_field_of_every_type_but_formula(self) -> None:
        for kind, (config, valid, _) in VALUES.items():
            if kind == "formula":
                continue
            with self.subTest(kind):
                self.channel(field("it", kind, config), name=kind)
                self.store.create_item(kind, {"it": valid[0]}, "one")
                self.store.update_item(kind, "one", {"it": None})
                self.assertIsNone(self.read("one", kind)["values"]["it"])

    def test_required_refuses_null_and_every_other_empty_value(self) -> None:
        self.channel(field("text", "text", required=True), field("tags", "multi_select", TAGS, required=True))
        self.store.create_item("other", {"text": "a", "tags": ["red"]}, "one")
        empties: List[JSON] = [{"text": None}, {"text": ""}, {"tags": None}, {"tags": []}]
        for values in empties:
            payload = self.refused("validation_failed", self.store.update_item, "other", "one", values)
            self.assertIn("is required and cannot be empty", payload["fields"][0]["message"])
        self.store.update_item("other", "one", {"text": "b"})

    def test_required_fields_must_be_there_on_creation(self) -> None:
        payload = self.refused("validation_failed", self.store.create_item, "bugs", {"title": "No ticket"})
        self.assertEqual([failing["key"] for failing in payload["fields"]], ["ticket", "status"])

    def test_false_and_zero_are_not_empty(self) -> None:
        self.channel(field("yes", "boolean", required=True), field("n", "number", required=True))
        self.store.create_item("other", {"yes": False, "n": 0})
        self.assertIn("yes: false | n: 0", self.store.list_record_items("other")["items"][0]["preview"])

    def test_bounds_are_said_as_far_as_they_are_set(self) -> None:
        self.channel(field("low", "number", {"min": 1}), field("high", "number", {"max": 9}), field("any", "number"))
        self.store.create_item("other", {}, "one")
        payload = self.refused(
            "validation_failed", self.store.update_item, "other", "one", {"low": 0, "high": 9.5, "any": "5"}
        )
        self.assertEqual(
            payload["fields"],
            [
                {"key": "low", "message": "values.low must be at least 1, got 0", "min": 1},
                {"key": "high", "message": "values.high must be at most 9, got 9.5", "max": 9},
                {"key": "any", "message": 'values.any must be a number, got "5"'},
            ],
        )

    def test_a_relation_points_to_an_item_that_is_there(self) -> None:
        self.channel(field("bug", "relation", {"record_channel_id": "bugs"}), field("none", "relation",
                     {"record_channel_id": "nowhere"}))  # fmt: skip
        self.store.create_item("other", {"bug": "bug-1"}, "one")
        self.refused("validation_failed", self.store.update_item, "other", "one", {"none": "bug-1"})
        self.store.delete_item("bugs", "bug-1")
        self.refused("validation_failed", self.store.update_item, "other", "one", {"bug": "bug-1"})
        self.assertEqual(self.read("one", "other")["values"]["bug"], "bug-1")

    def test_a_relation_does_not_tell_what_a_channel_that_is_not_granted_holds(self) -> None:
        self.channel(field("bug", "relation", {"record_channel_id": "bugs"}))
        self.store.create_item("other", {}, "one")
        self.store.granted = frozenset(["other"])
        messages = set()
        for target in ("bug-1", "bug-2"):
            arguments = {
                "record_channel_id": "other", "item_id": "one", "values": {"bug": target},
                "expected_version": 1, "idempotency_key": target,
            }  # fmt: skip
            payload = self.refused("validation_failed", self.store.call, "edit_record_item", arguments)
            messages.add(payload["fields"][0]["message"].replace(target, "…"))
        self.assertEqual(len(messages), 1)

    def test_no_value_of_any_kind_in_any_field_raises_anything_but_a_refusal(self) -> None:
        self.channel(*(field(kind, kind, config) for kind, (config, _, _) in VALUES.items()))
        self.store.create_item("other", {}, "one")
        deep: Any = "x"
        for _ in range(5000):
            deep = {"x": deep}
        for kind in VALUES:
            for value in [*HOSTILE, deep, [deep]]:
                with self.subTest(kind, value=str(type(value))):
                    try:
                        self.store.update_item("other", "one", {kind: value})
                    except ToolError as refusal:
                        json.dumps(refusal.payload, allow_nan=False).encode()
                    json.dumps(self.read("one", "other"), allow_nan=False).encode()

    def test_patterns_take_no_long_time_over_any_text(self) -> None:
        self.channel(field("e", "email"), field("u", "url"), field("p", "phone"), field("d", "date"))
        self.store.create_item("other", {}, "one")
        for text in ("a@" + "a." * 120, "a" * 250, "http://" + "a" * 2000 + "\n", "1-" * 19, "@" * 250, "a.-" * 80):
            for key in ("e", "u", "p", "d"):
                self.refused("validation_failed", self.store.update_item, "other", "one", {key: text})


class Schemas(RecordCase):
    def test_an_unfit_schema_is_refused(self) -> None:
        option = {"value": "a", "label": "A", "color": "red"}
        options: List[Any] = [
            None, [], {}, "ab", [None], ["a"], [{"value": "a", "label": "A"}], [{**option, "order": 1}],
            [{**option, "value": ""}], [{**option, "value": 1}], [{**option, "label": None}],
            [{**option, "color": True}], [option, option], [{**option, "value": str(number)} for number in range(201)],
        ]  # fmt: skip
        unfit: List[Any] = [
            None, "fields", [], {}, [None], [[]], [{}], (field("a", "text"),),
            [{**field("a", "text"), "more": 1}],
            [{key: value for key, value in field("a", "text").items() if key != "config"}],
            [field("a", "text"), field("a", "date")],
            *([field(key, "text")] for key in ("", "1a", "a b", "a-b", "é", "a" * 65, "a\n", "created_at")),
            *([{**field("a", "text"), "key": key}] for key in (None, 5, ["a"])),
            *([{**field("a", "text"), "label": label}] for label in (None, "", 5, "x" * 201, "\0", "\ud800")),
            *([{**field("a", "text"), "type": kind}] for kind in ("", "string", "Text", None, 5)),
            [{**field("a", "text"), "type": ["text"]}], [{**field("a", "text"), "type": {}}],
            [{**field("a", "text"), "is_required": 1}], [{**field("a", "text"), "is_unique": None}],
            [{**field("a", "text"), "config": None}], [field("a", "text", {"min": 1})],
            *([field("a", "text", {"max_length": length})] for length in (0, -1, "5", True, 5.0, 10**9, None)),
            *([field("a", "number", {"min": bound})] for bound in ("1", True, float("nan"), float("inf"), [1], 2**64)),
            [field("a", "number", {"min": 5, "max": 4})], [field("a", "percentage", {"min": 101})],
            *([field("a", "rating", {"max_stars": stars})] for stars in (0, 101, 5.0, True)),
            *([field("a", "currency", {"currency": code})] for code in ("eur", "EURO", 5, None)),
            *([field("a", "select", {"options": given})] for given in options),
            [field("a", "select")], [field("a", "multi_select")], [field("a", "formula")], [field("a", "relation")],
            [field("a", "relation", {"record_channel_id": 5})], [field("a", "relation", {"record_channel_id": ""})],
            [field("a", "formula", {"expression": "1"}, required=True)],
            [field("a", "formula", {"expression": "1"}, unique=True)],
            [field(f"f{number}", "text") for number in range(101)],
            [{**field(f"f{number}", "select", {"options": [
                {"value": f"{n}" * 60, "label": f"{n}" * 60, "color": "red"} for n in range(100, 200)]})}
                for number in range(5)],
        ]  # fmt: skip
        for fields in unfit:
            with self.subTest(fields=str(fields)[:200]):
                self.refused("invalid_arguments", self.store.create_channel, "new", fields)
                self.refused("invalid_arguments", self.store.change_schema, "bugs", fields)

    def test_a_schema_is_shown_as_it_was_given_but_for_false_flags_and_colours(self) -> None:
        fields = [field(kind, kind, config) for kind, (config, _, _) in VALUES.items()]
        self.channel(*fields)
        self.assertEqual(json.dumps(self.store.list_record_items("other")["schema"]), json.dumps(in_page(fields)))
