"""What a call may carry, what a refusal says, and when two date-times are the same instant."""

from __future__ import annotations

import json
import random
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any, List

from arguments import (
    ERROR_CODES,
    INT64_MAX,
    JSON,
    MAX_DEPTH,
    MAX_PROBLEMS,
    MAX_TEXT,
    MAX_VALUES,
    ToolError,
    arguments_check,
    canonical_time,
    not_found,
    shown,
)
from tests.record_case import HOSTILE

SCHEMA: JSON = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5},
        "note": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "maximum": 20},
        "any": {"type": "integer"},
        "when": {"type": "string", "format": "date-time"},
        "values": {"type": "object"},
    },
    "additionalProperties": False,
}


CHECK = arguments_check(SCHEMA)


def nested(levels: int) -> JSON:
    value: JSON = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


class Arguments(unittest.TestCase):
    def problems(self, **arguments: Any) -> List[str]:
        """The messages of the refusal; none if the arguments fit."""
        try:
            CHECK({"name": "abc", **arguments})
        except ToolError as refusal:
            self.assertEqual(refusal.payload["error"], "invalid_arguments")
            json.dumps(refusal.payload, allow_nan=False).encode()
            return [problem["message"] for problem in refusal.payload["arguments"]]
        return []

    def test_what_fits_passes(self) -> None:
        fitting: List[JSON] = [
            {"name": "ab"}, {"name": "abcde"}, {"name": "日本"}, {"name": "\U0001f600\U0001f600"}, {"name": "'\"\n"},
            {"note": ""}, {"note": "x" * MAX_TEXT}, {"count": 1}, {"count": 20}, {"any": INT64_MAX},
            {"any": -INT64_MAX - 1}, {"when": "2026-11-08T09:00:00Z"}, {"values": {}},
            {"values": {"a": [None, True, 1, 1.5, "x", {"b": []}]}}, {"values": nested(MAX_DEPTH)},
            {"values": {"a": ["x"] * (MAX_VALUES - 1)}}, {"values": {"a": "x" * (MAX_TEXT - 1)}},
        ]  # fmt: skip
        for arguments in fitting:
            with self.subTest(str(arguments)[:60]):
                self.assertEqual(self.problems(**arguments), [])

    def test_what_does_not_fit_is_named_with_the_reason(self) -> None:
        for argument, value, problem in (
            ("name", "a", "must be 2 to 5 characters long, got 1"),
            ("name", "abcdef", "must be 2 to 5 characters long, got 6"),
            ("name", 5, "must be a string, got 5"),
            ("name", None, "must be a string, got null"),
            ("name", True, "must be a string, got true"),
            ("name", ["ab"], "must be a string, got a list"),
            ("name", {}, "must be a string, got an object"),
            ("name", "a\0b", "must not contain a NUL character"),
            ("name", "a\ud800", "must be valid Unicode, got a lone surrogate"),
            ("name", "\udfffa", "must be valid Unicode, got a lone surrogate"),
            ("note", "x" * (MAX_TEXT + 1), f"must be 0 to {MAX_TEXT} characters long, got {MAX_TEXT + 1}"),
            ("count", 0, "must be 1 to 20, got 0"),
            ("count", 21, "must be 1 to 20, got 21"),
            ("count", True, "must be an integer, got true"),
            ("count", 5.0, "must be an integer, got 5.0"),
            ("count", "5", 'must be an integer, got "5"'),
            ("count", float("nan"), "must be an integer, got nan"),
            ("count", float("inf"), "must be an integer, got inf"),
            ("any", 2**63, f"must be {-(2**63)} to {2**63 - 1}, got an integer of more than 64 bits"),
            ("any", -(2**63) - 1, f"must be {-(2**63)} to {2**63 - 1}, got an integer of more than 64 bits"),
            ("when", "soon", 'must be a date-time such as 2026-11-08T09:00:00.000000Z, got "soon"'),
            ("values", [], "must be an object, got a list"),
            ("values", "{}", 'must be an object, got "{}"'),
            ("values", nested(MAX_DEPTH + 1), f"must not be nested deeper than {MAX_DEPTH} levels"),
            ("values", {"a": ["x"] * MAX_VALUES}, f"must not hold more than {MAX_VALUES} values"),
            ("values", {"a": "x" * MAX_TEXT}, f"must not hold more than {MAX_TEXT} characters"),
            ("values", {"x" * MAX_TEXT: "a"}, f"must not hold more than {MAX_TEXT} characters"),
            ("values", {"a": 2**63}, "must hold integers of at most 64 bits"),
            ("values", {"a": [-(2**63) - 1]}, "must hold integers of at most 64 bits"),
            ("values", {"a": float("nan")}, "must hold finite numbers, got nan"),
            ("values", {"a": [float("-inf")]}, "must hold finite numbers, got -inf"),
            ("values", {"a": "\0"}, "must not contain a NUL character"),
            ("values", {"\0": 1}, "must not contain a NUL character"),
            ("values", {"a": {"\ud800": 1}}, "must be valid Unicode, got a lone surrogate"),
            ("values", {"a": ["\ud83d", "\ude42"]}, "must be valid Unicode, got a lone surrogate"),
            ("values", {"a\ud83d": "\ude42"}, "must be valid Unicode, got a lone surrogate"),
            ("values", {1: 2}, "must have strings as keys"),
            ("surprise", 1, "is not an argument of this tool"),
            ("Name", "abc", "is not an argument of this tool"),
            ("name ", "abc", "is not an argument of this tool"),
        ):  # fmt: skip
            with self.subTest(argument=argument, value=str(value)[:60]):
                self.assertEqual(self.problems(**{argument: value}), [f"{argument} {problem}"])

    def test_what_json_does_not_have_is_refused(self) -> None:
        for value in (b"bytes", (1, 2), {1, 2}, object(), ToolError):
            for argument in SCHEMA["properties"]:
                self.assertEqual(len(self.problems(**{argument: value})), 1)
            self.assertEqual(self.problems(values={"a": value}), ["values must hold JSON values only"])

    def test_a_subclass_of_a_json_type_is_refused(self) -> None:
        class Text(str):
            pass

        class Number(int):
            pass

        class Mapping(dict):  # type: ignore[type-arg]
            pass

        for argument, value in (("name", Text("abc")), ("count", Number(5)), ("values", Mapping())):
            self.assertEqual(len(self.problems(**{argument: value})), 1, argument)
            self.assertEqual(len(self.problems(values={"a": value})), 1, argument)

    def test_a_subclass_that_claims_to_be_str_is_refused_as_a_name_too(self) -> None:
        class Claims(type):
            def __eq__(cls, other: object) -> bool:
                return other in (cls, str)

            def __hash__(cls) -> int:
                return hash(str)

        class Text(str, metaclass=Claims):
            pass

        self.assertEqual(self.problems(values={"a": {Text("b"): 1}}), ["values must have strings as keys"])
        with self.assertRaises(ToolError):
            CHECK({Text("name"): "abc"})

    def test_a_name_is_shown_with_its_own_quotes(self) -> None:
        self.assertEqual(self.problems(**{'"a"': 1}), ['\\"a\\" is not an argument of this tool'])

    def test_a_missing_argument_is_required(self) -> None:
        with self.assertRaises(ToolError) as refused:
            CHECK({})
        self.assertEqual(refused.exception.payload["arguments"], [{"name": "name", "message": "name is required"}])

    def test_every_misfit_is_named_not_the_first_only(self) -> None:
        problems = self.problems(name="a", count=0, any="x", surprise=1)
        self.assertEqual([problem.split()[0] for problem in problems], ["name", "count", "any", "surprise"])

    def test_a_flood_of_misfits_gets_a_short_answer(self) -> None:
        flood = {"k" * 500 + str(number): "x" * 5000 for number in range(1500)}
        problems = self.problems(**flood)
        self.assertEqual(len(problems), MAX_PROBLEMS)
        self.assertLess(sum(map(len, problems)), 10_000)

    def test_deep_nesting_is_refused_not_recursed_into(self) -> None:
        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        self.assertEqual(len(self.problems(values={"a": deep})), 1)
        self.assertEqual(len(self.problems(count=deep)), 1)

    def test_a_list_that_holds_itself_is_refused(self) -> None:
        loop: List[Any] = []
        loop.append(loop)
        self.assertEqual(len(self.problems(values={"a": loop})), 1)

    def test_arguments_that_are_no_object_are_refused(self) -> None:
        misfits: List[Any] = [None, [], "name", 5, (("name", "abc"),), {1: "abc"}, {None: 1, "name": "abc"}]
        for arguments in misfits:
            with self.assertRaises(ToolError) as refused:
                CHECK(arguments)
            self.assertEqual(refused.exception.payload["error"], "invalid_arguments")
            json.dumps(refused.exception.payload).encode()

    def test_checking_leaves_the_arguments_as_they_are(self) -> None:
        arguments: JSON = {"name": "abc", "values": {"a": [1, {"b": [2]}]}}
        before = json.dumps(arguments)
        CHECK(arguments)
        self.assertEqual(json.dumps(arguments), before)


class Refusals(unittest.TestCase):
    def test_a_refusal_begins_with_its_code(self) -> None:
        refusal = ToolError("busy", message="later")
        self.assertEqual(list(refusal.payload.items()), [("error", "busy"), ("message", "later")])
        self.assertEqual(json.loads(str(refusal)), refusal.payload)

    def test_the_codes_that_the_contract_names_are_there(self) -> None:
        for code in (
            "invalid_arguments", "unknown_tool", "not_found", "version_conflict", "idempotency_key_reused",
            "validation_failed",
        ):  # fmt: skip
            self.assertIn(code, ERROR_CODES)

    def test_what_was_not_found_is_quoted_safely(self) -> None:
        message = not_found("article", 'a"\n').payload["message"]
        self.assertEqual(message, 'no article "a\\"\\n" is available to you')
        not_found("\ud800", "\udfff" * 500).payload["message"].encode()

    def test_any_value_is_shown_short_and_as_legal_text(self) -> None:
        for value in [*HOSTILE, "\ud800" * 100, "é" * 100, 10**5000, [[[]]], {"a": 1}, {1: 2}]:
            text = shown(value)
            text.encode()
            self.assertLessEqual(len(text), 600)
        self.assertEqual(shown("x" * 80), '"' + "x" * 80 + '"')
        self.assertEqual(shown("x" * 81), '"' + "x" * 79 + '…"')
        self.assertEqual(shown("日本"), '"日本"')


class CanonicalTimes(unittest.TestCase):
    def test_the_same_instant_has_one_form(self) -> None:
        for text, expected in (
            ("2026-11-08T09:00:00Z", "2026-11-08T09:00:00.000000Z"),
            ("2026-11-08T09:00:00.5Z", "2026-11-08T09:00:00.500000Z"),
            ("2026-11-08T09:00:00.000001Z", "2026-11-08T09:00:00.000001Z"),
            ("2026-11-08T09:00:00-00:00", "2026-11-08T09:00:00.000000Z"),
            ("2026-11-08T09:00:00+09:30", "2026-11-07T23:30:00.000000Z"),
            ("2026-12-31T23:59:59.999999-00:01", "2027-01-01T00:00:59.999999Z"),
            ("2024-02-29T00:00:00+23:59", "2024-02-28T00:01:00.000000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ):
            self.assertEqual(canonical_time(text), expected, text)

    def test_what_is_no_date_time_is_none(self) -> None:
        for text in (
            "", "now", "2026-11-08", "2026-11-08T09:00:00", "2026-11-08T09:00Z", "2026-11-08 09:00:00Z",
            "2026-11-08t09:00:00z", "2026-11-08T09:00:00z", "2026-11-08T9:00:00Z", "20261108T090000Z", "2026-W45-7",
            "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-31T00:00:00Z", "2026-11-08T24:00:00Z",
            "2026-11-08T23:59:60Z", "2026-11-08T09:00:00.Z", "2026-11-08T09:00:00.0000001Z", "2026-11-08T09:00:00,5Z",
            "2026-11-08T09:00:00+24:00", "2026-11-08T09:00:00+0100", "2026-11-08T09:00:00+01", "0000-01-01T00:00:00Z",
            "2026-11-08T09:00:00+0١:00",
            "2026-11-08T09:00:00+01:60", "2026-11-08T09:00:00Z\n", " 2026-11-08T09:00:00Z", "-026-11-08T09:00:00Z",
            "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "２026-11-08T09:00:00Z", "٢٠٢٦-11-08T09:00:00Z",
        ):  # fmt: skip
            self.assertIsNone(canonical_time(text), text)

    def test_later_is_greater_as_text_and_any_offset_comes_back(self) -> None:
        draw = random.Random(0)
        begin = datetime(1990, 1, 1, tzinfo=timezone.utc)
        instants = [begin + timedelta(microseconds=draw.randrange(2 * 10**15)) for _ in range(300)]
        texts = []
        for instant in instants:
            zone = timezone(timedelta(minutes=draw.randrange(-1439, 1440)))
            local = canonical_time(instant.astimezone(zone).isoformat(timespec="microseconds"))
            self.assertEqual(local, instant.isoformat(timespec="microseconds").replace("+00:00", "Z"))
            texts.append(local or "")
        self.assertEqual([text for _, text in sorted(zip(instants, texts))], sorted(texts))


if __name__ == "__main__":
    unittest.main()
