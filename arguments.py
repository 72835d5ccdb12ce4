"""What a call may carry: arguments checked against a tool's inputSchema, and how a refusal says no.

Glossary
    refusal       `ToolError.payload`: a JSON object that begins with "error", one of ERROR_CODES
    inputSchema   the part of JSON Schema that the tools declare: type, required, minLength/maxLength,
                  minimum/maximum, format date-time, additionalProperties false
    problem       why one value is refused, as the end of a sentence: "must be an integer, got true"; None if it fits
    check         value -> problem, prepared once from what is declared (`arguments_check` prepares one that raises)

All input is hostile until it has passed here. Nothing is converted: 5.0 is not 5, true is not 1, "3" is not 3.
Types are compared exactly, as json.loads makes them: a subclass of str or dict could run code of its own later on.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any, Callable, Dict, List, Optional, Tuple

JSON = Dict[str, Any]
Check = Callable[[Any], Optional[str]]

# Made once: json.dumps and json.loads look at their options again in every call.
to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_raw_decode = json.JSONDecoder().raw_decode

ERROR_CODES = (
    "invalid_arguments",  # the call does not fit the tool's inputSchema; "arguments" lists the misfits
    "unknown_tool",
    # Unknown, unpublished, deleted or not granted: one answer to whoever asks for it. (The event log of what is granted
    # does name drafts and deleted items, and a deleted item may be a page's before_id: cursors live on.)
    "not_found",
    "version_conflict",  # changed since expected_version; never hands over the current version
    "idempotency_key_reused",  # the key belongs to an edit of the same resource with other arguments
    "validation_failed",  # record fields that do not fit the channel's schema
    "sequence_beyond_log",  # a cursor this log never gave: an empty answer would leave its agent blind for ever
    "busy",  # another process held the write lock for too long; nothing was written
)

# Bounds on any argument. They keep hostile input clear of SQLite's own limits (64-bit integers, 10^9 bytes) and of
# Python's (recursion depth), with room to spare for real articles.
MAX_TEXT = 1_000_000  # characters, of one string and of all strings in one object together
MAX_DEPTH = 32  # levels of nesting
MAX_VALUES = 10_000  # values in one object, keys not counted
MAX_PROBLEMS = 20  # misfits that one refusal lists
INT64_MAX = 2**63 - 1

IDENTIFIER: JSON = {"type": "string", "minLength": 1, "maxLength": 200}  # of what people name, and idempotency keys


class ToolError(Exception):
    """A refused call. `payload` is {"error": one of ERROR_CODES, ...} and is all an agent gets to see."""

    def __init__(self, error: str, **details: Any) -> None:
        self.payload: JSON = {"error": error, **details}
        super().__init__(self.payload)

    def __str__(self) -> str:
        return json.dumps(self.payload)


def arguments_check(schema: JSON) -> Callable[[Any], None]:
    """A check of arguments, prepared once from an inputSchema, so that a call only runs closures.

    It raises ToolError("invalid_arguments", arguments=[{name, message}, …]) naming every misfit, MAX_PROBLEMS at most,
    not the first only. It knows the part of JSON Schema that the tools declare, and is stricter in one place (our
    choice): 5.0 is not an integer, because numbers are never converted.
    """
    checks = {name: CHECKS[rule["type"]](rule) for name, rule in schema["properties"].items()}
    required = schema["required"]

    def check(arguments: Any) -> None:
        if type(arguments) is not dict:
            raise no_object(arguments)
        problems = []
        for name, value in arguments.items():
            if type(name) is not str:
                raise no_object(arguments)
            value_check = checks.get(name)
            problem = value_check(value) if value_check else "is not an argument of this tool"
            if problem:
                problems.append((shown_name(name), problem))
        for name in required:
            if name not in arguments:
                problems.append((name, "is required"))
        if problems:
            listed = [{"name": name, "message": f"{name} {problem}"} for name, problem in problems[:MAX_PROBLEMS]]
            raise ToolError("invalid_arguments", arguments=listed)

    return check


def string_check(rule: JSON) -> Check:
    low, high = rule.get("minLength", 0), rule.get("maxLength", MAX_TEXT)
    is_time = rule.get("format") == "date-time"

    def check(value: Any) -> Optional[str]:
        if type(value) is not str:
            return f"must be a string, got {shown(value)}"
        if not low <= len(value) <= high:
            return f"must be {low} to {high} characters long, got {len(value)}"
        if is_time and canonical_time(value) is None:
            return f"must be a date-time such as 2026-11-08T09:00:00.000000Z, got {shown(value)}"
        return text_problem(value)

    return check


def text_problem(value: str) -> Optional[str]:
    """Refuses what cannot be kept as UTF-8, and NUL, at which C code would cut the text short."""
    if "\0" in value:
        return "must not contain a NUL character"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "must be valid Unicode, got a lone surrogate"
    return None


def integer_check(rule: JSON) -> Check:
    low, high = rule.get("minimum", -INT64_MAX - 1), rule.get("maximum", INT64_MAX)

    def check(value: Any) -> Optional[str]:
        if type(value) is not int:
            return f"must be an integer, got {shown(value)}"
        return None if low <= value <= high else f"must be {low} to {high}, got {shown(value)}"

    return check


def boolean_check(rule: JSON) -> Check:
    return lambda value: None if type(value) is bool else f"must be true or false, got {shown(value)}"


def object_check(rule: JSON) -> Check:
    return lambda value: json_problem(value) if type(value) is dict else f"must be an object, got {shown(value)}"


def json_problem(value: Any) -> Optional[str]:
    """Why an object or a list cannot be kept as JSON; None if it can."""
    waiting: List[Tuple[Any, int]] = [(value, 1)]  # a stack of its own: hostile nesting must not exhaust Python's
    texts: List[str] = []  # keys too; looked at all together, which is cheaper than one by one
    values = 0
    while waiting:
        container, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return f"must not be nested deeper than {MAX_DEPTH} levels"
        values += len(container)
        if values > MAX_VALUES:
            return f"must not hold more than {MAX_VALUES} values"
        children = container
        if type(container) is dict:
            for key in container:
                if type(key) is not str:
                    return "must have strings as keys"
            texts += container
            children = container.values()
        for item in children:
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind is dict or kind is list:
                waiting.append((item, depth + 1))
            elif kind is float:
                if item - item != 0:  # true of NaN and both infinities, which JSON does not have
                    return f"must hold finite numbers, got {item}"
            elif kind is int:
                if not -INT64_MAX - 1 <= item <= INT64_MAX:
                    return "must hold integers of at most 64 bits"
            elif item is not None and kind is not bool:
                return "must hold JSON values only"
    if sum(map(len, texts)) > MAX_TEXT:
        return f"must not hold more than {MAX_TEXT} characters"
    return text_problem("".join(texts))


CHECKS: Dict[str, Callable[[JSON], Check]] = {
    "string": string_check,
    "integer": integer_check,
    "boolean": boolean_check,
    "object": object_check,
}


# --- small things ---------------------------------------------------------------------------------------------------


def from_json(text: str) -> Any:
    """For what a store has written itself: unlike json.loads it does not look for what may stand behind a value."""
    return _raw_decode(text)[0]


def shown(value: Any) -> str:
    """A value as JSON for a message: cut at 80 characters, safe for whatever was sent."""
    kind = type(value)
    if kind is str:
        short = value if len(value) <= 80 else value[:79] + "…"
        return to_json(short) if text_problem(short) is None else json.dumps(short)
    if kind is int:
        return str(value) if -INT64_MAX - 1 <= value <= INT64_MAX else "an integer of more than 64 bits"
    if kind is float and value - value != 0:
        return str(value)
    if value is None or kind is bool or kind is float:
        return json.dumps(value)
    if kind is list:
        return "a list"
    if kind is dict:
        return "an object" if all(type(key) is str for key in value) else "an object whose names are not all strings"
    return "a value that is not JSON"


def shown_name(name: Any) -> str:
    return shown(name)[1:-1] if type(name) is str else shown(name)


def no_object(arguments: Any) -> ToolError:
    return ToolError("invalid_arguments", message=f"arguments must be an object, got {shown(arguments)}")


def not_found(kind: str, identifier: str) -> ToolError:
    return ToolError("not_found", message=f"no {shown_name(kind)} {shown(identifier)} is available to you")


_DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)


def canonical_time(text: str) -> Optional[str]:
    """The same instant as "2026-11-08T09:00:00.000000Z": UTC, microseconds, 27 characters. None if it is no date-time.

    In this form later is greater as text too. At most six decimals are taken: rounding would make two versions one.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return None
    seconds, decimals, sign, hours, minutes = match.groups()
    try:
        when = datetime.fromisoformat(f"{seconds}.{decimals or '0':0<6}")
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            when = when - offset if sign == "+" else when + offset
        elif len(text) == 27:
            return text  # in this form already, as the versions are that a store gives
    except (ValueError, OverflowError):
        return None
    return when.isoformat(timespec="microseconds") + "Z"
