"""Formulas: what they compute, what is null, what is no formula."""

from __future__ import annotations

from typing import Any

from tests.record_case import NOW, RecordCase, field


class Formulas(RecordCase):
    def compute(self, expression: str, **values: Any) -> Any:
        fields = [
            field("a", "number"), field("b", "currency"), field("c", "percentage"), field("d", "rating"),
            field("day", "date"), field("name", "text"), field("it", "formula", {"expression": expression}),
        ]  # fmt: skip
        channel = next(self.keys)
        self.channel(*fields, name=channel)
        self.store.create_item(channel, values, "one")
        return self.read("one", channel)["values"]["it"]

    def test_arithmetic_has_the_usual_precedence(self) -> None:
        for expression, expected in (
            ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("2 - 3 - 4", -5), ("16 / 4 / 2", 2.0), ("-2 * -3", 6),
            ("- (1 + 2)", -3), ("--1", 1), ("1.5+1", 2.5), ("7/2", 3.5), (" 1\t+\n1 ", 2), ("2 * 3 - 4 / 2", 4.0),
        ):  # fmt: skip
            with self.subTest(expression):
                result = self.compute(expression)
                self.assertEqual((result, type(result)), (expected, type(expected)))

    def test_every_number_like_field_counts(self) -> None:
        self.assertEqual(self.compute("a + b * c - d", a=1, b=2.5, c=10, d=3), 23.0)

    def test_days_since_counts_whole_days_by_the_stores_clock(self) -> None:
        self.assertEqual(self.compute("days_since(day)", day="2026-11-01"), 7)
        self.assertEqual(self.compute("days_since( day ) * 2", day="2026-11-10"), -4)
        self.assertEqual(self.read()["values"]["age_days"], 0)
        self.now += 3 * 86_400
        self.assertEqual(self.read()["values"]["age_days"], 3)

    def test_what_cannot_be_computed_is_null(self) -> None:
        big = "9" * 18
        too_big = (f"{big} * {big}", "9.0" + f"*{big}.0" * 22, "9" * 400 + " / 2", "9" * 400 + ".0 - " + "9" * 90)
        for expression in ("a + 1", "1 / 0", "1 / (2 - 2)", "days_since(day)", "1.0 / 0.0", *too_big):
            with self.subTest(expression):
                self.assertIsNone(self.compute(expression))

    def test_a_value_from_before_the_schema_that_is_no_number_makes_null(self) -> None:
        self.channel(field("a", "text"))
        self.store.create_item("other", {"a": "five"}, "one")
        double = field("it", "formula", {"expression": "a * 2"})
        self.store.change_schema("other", [field("a", "number"), double])
        self.store.create_item("other", {"a": 2}, "two")
        self.assertEqual(self.read("two", "other")["values"], {"a": 2, "it": 4})
        self.assertEqual(self.read("one", "other")["values"], {"a": "five", "it": None})
        age = field("it", "formula", {"expression": "days_since(a)"})
        self.store.change_schema("other", [field("a", "date"), age])
        self.assertEqual(self.read("one", "other")["values"], {"a": "five", "it": None})

    def test_true_is_no_number(self) -> None:
        self.channel(field("a", "boolean"))
        self.store.create_item("other", {"a": True}, "one")
        self.store.change_schema("other", [field("a", "number"), field("it", "formula", {"expression": "a * 2"})])
        self.assertIsNone(self.read("one", "other")["values"]["it"])

    def test_a_field_that_becomes_a_formula_is_computed_and_leaves_the_preview(self) -> None:
        self.channel(field("a", "number"), field("b", "number"))
        self.store.create_item("other", {"a": 2, "b": 3}, "one")
        self.store.change_schema("other", [field("a", "number"), field("b", "formula", {"expression": "a * 5"})])
        self.assertEqual(self.read("one", "other")["values"], {"a": 2, "b": 10})
        self.assertEqual(self.store.list_record_items("other")["items"][0]["preview"], "a: 2")

    def test_a_read_without_a_formula_asks_for_no_time(self) -> None:
        self.channel(field("a", "number"))
        self.store.create_item("other", {"a": 2}, "one")
        self.now = float("nan")
        self.assertEqual(self.read("one", "other")["values"], {"a": 2})
        self.now = NOW

    def test_an_expression_that_is_none_is_refused(self) -> None:
        expressions = (
            "", " ", "1 +", "+ 1", "(1", "1)", "1 2", "()", "1 // 2", "2 ** 3", "a", "nothing", "name + 1", "it + 1",
            "days_since", "days_since()", "days_since(a)", "days_since(1)", "days_since(day", "days_since(day, day)",
            "abs(a)", "__import__('os')", "a.b", "a[0]", "1e5", "1.", ".5", "'x'", "a = 1", "1; 2", "٣", "1 + é",
            "(" * 21 + "1" + ")" * 21, "-" * 22 + "1", "1+" * 250 + "1", "\0", "\ud800", 5, None, ["1"],
        )  # fmt: skip
        for expression in expressions:
            with self.subTest(expression=expression):
                fields = [field("day", "date"), field("name", "text")]
                fields.append(field("it", "formula", {"expression": expression}))
                if expression == "days_since(a)":
                    fields.append(field("a", "number"))
                self.refused("invalid_arguments", self.store.create_channel, "new", fields)

    def test_the_deepest_and_longest_expressions_compute(self) -> None:
        self.assertEqual(self.compute("(" * 20 + "1" + ")" * 20), 1)
        self.assertEqual(self.compute("1+" * 249 + "1"), 250)
