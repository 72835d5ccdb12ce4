"""The 16 field types of a record channel: what a valid value of each type is, and when two values are the same.

Glossary
    field     {"key", "label", "type", "is_required", "is_unique", "config"}; field_schema.py says what a valid one is
    config    what a type lets people set: the longest text, the options of a select
    check     value -> problem, prepared from a type and its config
    problem   the end of a sentence that begins "values.<key>": "must be between 0 and 13, got 20"; None if it fits

The README's section "A valid value of each field type" has the table of all types, their config and their rules. Types
and config are the post's ("Che cos'è un valore valido?"); every rule is our choice. Nothing is ever converted.
"""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from arguments import JSON, MAX_TEXT, Check, shown, string_check

canonical_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True).encode


def is_empty(value: Any) -> bool:
    return value is None or value == "" or value == []


def unique_form(kind: str, value: Any) -> str:
    """The text under which a unique value of a type is claimed: 5 and 5.0 are one number wherever they stand, keys have
    no order, and nor have the options of a multi_select. Text is compared as it is, case and accents and all.
    """
    value = one_number(value)
    if kind == "multi_select" and isinstance(value, list):
        value.sort(key=canonical_json)  # a value that an earlier schema let in may hold anything
    return canonical_json(value)


def one_number(value: Any) -> Any:
    """A JSON value in which whole numbers are integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [one_number(item) for item in value]
    if isinstance(value, dict):
        return {key: one_number(item) for key, item in value.items()}
    return value


# --- a valid value of each type --------------------------------------------------------------------------------------
# Each of these prepares a check from (type, config) once, so that an edit only calls closures.


def text_check(kind: str, config: JSON) -> Check:
    longest = config.get("max_length", MAX_TEXT)

    def check(value: Any) -> Optional[str]:
        if not isinstance(value, str):
            return f"must be a string, got {shown(value)}"
        if len(value) > longest:
            return f"must be at most {longest} characters long, got {len(value)}"
        return None

    return check


def number_check(kind: str, config: JSON) -> Check:
    low, high = bounds(kind, config)
    whole = kind == "rating"
    types = (int,) if whole else (int, float)

    def check(value: Any) -> Optional[str]:
        if not isinstance(value, types) or isinstance(value, bool):
            return f"must be {'an integer' if whole else 'a number'}, got {shown(value)}"
        if (low is None or value >= low) and (high is None or value <= high):
            return None
        if low is None or high is None:
            return f"must be at {'most' if low is None else 'least'} {high if low is None else low}, got {shown(value)}"
        return f"must be between {low} and {high}, got {shown(value)}"

    return check


def bounds(kind: str, config: JSON) -> Tuple[Any, Any]:
    """(lowest, highest) value of a number-like field; None where there is no bound, and for all other types."""
    if kind == "rating":
        return 1, config.get("max_stars", 5)
    if kind == "percentage":
        return config.get("min", 0), config.get("max", 100)
    return config.get("min"), config.get("max")


_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def date_check(kind: str, config: JSON) -> Check:
    def check(value: Any) -> Optional[str]:
        # fromisoformat alone takes other spellings too from Python 3.11 on: "20261108", "2026-W45-7".
        if isinstance(value, str) and _DATE.fullmatch(value):
            try:
                date.fromisoformat(value)
                return None
            except ValueError:
                pass
        return f"must be a date as YYYY-MM-DD, got {shown(value)}"

    return check


def boolean_check(kind: str, config: JSON) -> Check:
    return lambda value: None if isinstance(value, bool) else f"must be true or false, got {shown(value)}"


# No two neighbouring parts of these patterns can match the same character, so none backtracks for long. Spaces and
# control characters are excluded throughout.
_EMAIL = re.compile(r'[^\s\x00-\x20\x7f@<>(),;:"\[\]\\]{1,64}@(?:[\w-]+\.)+[\w-]+')
_PHONE = re.compile(r"\+?[\d .()-]+", re.ASCII)
_URL = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:[/?#][^\s\x00-\x20\x7f]*)?", re.IGNORECASE)


def is_email(value: str) -> bool:
    return len(value) <= 254 and _EMAIL.fullmatch(value) is not None


def is_phone(value: str) -> bool:
    # 15 digits is E.164's limit; below 7 it is an extension.
    return len(value) <= 40 and _PHONE.fullmatch(value) is not None and 7 <= sum(map(str.isdigit, value)) <= 15


def is_url(value: str) -> bool:
    # "https://bank.example@evil.example" goes to evil.example: the pattern has no room for a user name.
    return len(value) <= 2048 and _URL.fullmatch(value) is not None


STRING_FORMS: Dict[str, Tuple[Callable[[str], bool], str]] = {
    "email": (is_email, "an email address such as aiko@example.com"),
    "phone": (is_phone, "a phone number such as +39 06 1234 5678"),
    "url": (is_url, "an http or https address such as https://example.com/path"),
}


def form_check(kind: str, config: JSON) -> Check:
    fits, form = STRING_FORMS[kind]
    return lambda value: None if isinstance(value, str) and fits(value) else f"must be {form}, got {shown(value)}"


def select_check(kind: str, config: JSON) -> Check:
    allowed = frozenset(option["value"] for option in config["options"])

    def check(value: Any) -> Optional[str]:
        if isinstance(value, str) and value in allowed:
            return None
        return f"must be one of the option values, got {shown(value)}"

    return check


def multi_select_check(kind: str, config: JSON) -> Check:
    allowed = frozenset(option["value"] for option in config["options"])

    def check(value: Any) -> Optional[str]:
        if not isinstance(value, list):
            return f"must be a list of option values, got {shown(value)}"
        for index, chosen in enumerate(value):
            if not isinstance(chosen, str) or chosen not in allowed:
                return f"must be a list of option values, got {shown(chosen)} in it"
            if chosen in value[:index]:
                return f"must not name an option twice, got {shown(chosen)} again"
        return None

    return check


def relation_check(kind: str, config: JSON) -> Check:
    return lambda value: None if isinstance(value, str) else f"must be the id of an item, got {shown(value)}"


def file_check(kind: str, config: JSON) -> Check:
    """A reference: the bytes live elsewhere, and no tool of an agent uploads any."""
    form = 'must be a file as {"name", "url"} with perhaps "size" and "media_type"'
    needed, known = {"name", "url"}, {"name", "url", "size", "media_type"}
    name_problem = string_check({"minLength": 1, "maxLength": 255})
    media_type_problem = string_check({"maxLength": 127})

    def check(value: Any) -> Optional[str]:
        if not isinstance(value, dict):
            return f"{form}, got {shown(value)}"
        if not needed <= value.keys() <= known:
            return f"{form}, got other keys"
        if name_problem(value["name"]) or "/" in value["name"]:
            return f"must have a name of 1 to 255 characters without a slash, got {shown(value['name'])}"
        if not isinstance(value["url"], str) or not is_url(value["url"]):
            return f"must have a url such as https://example.com/a.pdf, got {shown(value['url'])}"
        size, media_type = value.get("size", 0), value.get("media_type", "")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            return f"must have its size in bytes, got {shown(size)}"
        if media_type_problem(media_type):
            return f"must have a media type such as application/pdf, got {shown(media_type)}"
        return None

    return check


def json_check(kind: str, config: JSON) -> Check:
    return lambda value: None  # that it is JSON within bounds was checked at the door


def formula_check(kind: str, config: JSON) -> Check:
    return lambda value: "is a formula field and is computed, not written"


class FieldType(NamedTuple):
    check: Callable[[str, JSON], Check]
    config: Tuple[str, ...] = ()  # the keys its config may have


TYPES: Dict[str, FieldType] = {
    "text": FieldType(text_check, ("max_length",)),
    "number": FieldType(number_check, ("min", "max")),
    "date": FieldType(date_check),
    "boolean": FieldType(boolean_check),
    "email": FieldType(form_check),
    "phone": FieldType(form_check),
    "url": FieldType(form_check),
    "select": FieldType(select_check, ("options",)),
    "multi_select": FieldType(multi_select_check, ("options",)),
    "currency": FieldType(number_check, ("min", "max", "currency")),
    "percentage": FieldType(number_check, ("min", "max")),
    "rating": FieldType(number_check, ("max_stars",)),
    "relation": FieldType(relation_check, ("record_channel_id",)),
    "file": FieldType(file_check),
    "json": FieldType(json_check),
    "formula": FieldType(formula_check, ("expression",)),
}

NUMBER_TYPES = ("number", "currency", "percentage", "rating")
