"""A channel's schema: what people may make of it, and what an edit, a refusal, a preview and a page need of it.

Glossary
    field     {"key", "label", "type", "is_required", "is_unique", "config"}, as people save it; a page shows `in_page`
    fields    the list of them: what people edit in the Schema tab
    Schema    fields prepared once: a check for each key, formulas parsed, the preview's order worked out
    hint      what a refusal adds to the message: {"allowed": [...]}, or {"min", "max"} as far as they are set
    values    {key: value} of one item; an absent key is as empty as null

Null, "" and [] are empty: a field that is not required may be cleared with null, a required one refuses all three.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional

from arguments import (
    IDENTIFIER,
    JSON,
    MAX_PROBLEMS,
    MAX_TEXT,
    Check,
    ToolError,
    integer_check,
    json_problem,
    shown,
    shown_name,
    string_check,
    to_json,
)
from field_types import NUMBER_TYPES, TYPES, bounds, is_empty
from formula import Formula, parse_formula

PREVIEW_LENGTH = 120  # characters, as in the post
MAX_FIELDS = 100
MAX_OPTIONS = 200  # of one field
MAX_SCHEMA_TEXT = 100_000  # characters of JSON: every page carries the schema
ITEM_DATES = ("created_at", "updated_at")  # what a formula may name besides fields

# Control characters, line ends among them, and the marks, embeddings, overrides and isolates of bidirectional writing.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Schema:
    """One version of a channel's schema, prepared. Immutable. Raises ToolError("invalid_arguments") if it is unfit."""

    def __init__(self, fields: List[JSON], version: int) -> None:
        problem = schema_problem(fields)
        if problem:
            raise ToolError("invalid_arguments", arguments=[{"name": "fields", "message": problem}])
        self.fields = fields
        self.version = version
        self.text = to_json(fields)
        self.page_text = to_json(in_page(fields))
        self.checks: Dict[str, Check] = {field["key"]: field_check(field) for field in fields}
        self.required = [field["key"] for field in fields if field["is_required"]]
        self.clearable = frozenset(
            field["key"] for field in fields if not field["is_required"] and field["type"] != "formula"
        )
        self.unique = {field["key"]: field["type"] for field in fields if field["is_unique"]}
        self.related = {field["key"]: field["config"]["record_channel_id"] for field in fields_of(fields, "relation")}
        self.looked_up = [field["key"] for field in fields if field["is_unique"] or field["type"] == "relation"]
        self.formulas = {field["key"]: formula_of(field, fields) for field in fields_of(fields, "formula")}
        # A formula changes from day to day without an edit, so a preview that is kept cannot show it.
        written = [field for field in fields if field["type"] != "formula"]
        self.preview_order = [field["key"] for field in sorted(written, key=lambda field: field["type"] != "select")]

    def problems(self, values: JSON) -> Dict[str, str]:
        """{key: problem} of every value that does not fit, in the order sent; no look at other items."""
        found = {}
        checks = self.checks
        for key, value in values.items():
            if value is None and key in self.clearable:
                continue
            check = checks.get(key)
            problem = check(value) if check else "is not a field of this channel"
            if problem:
                found[key] = problem
        return found

    def refusal(self, problems: Mapping[str, str], level: str) -> ToolError:
        """validation_failed in as much detail as the level says (post, "Come dovrebbe essere un rifiuto?").

        Failing fields come in schema order, then unknown keys in the order sent, MAX_PROBLEMS of them at most.
        """
        if level == "terse":
            return ToolError("validation_failed")
        unknown = [key for key in problems if key not in self.checks]
        failing = [field["key"] for field in self.fields if field["key"] in problems] + unknown[:MAX_PROBLEMS]
        if level == "field":
            return ToolError("validation_failed", fields=[{"key": shown_name(key)} for key in failing])
        by_key = {field["key"]: field for field in self.fields}
        listed = []
        for key in failing:
            message = f"values.{shown_name(key)} {problems[key]}"
            listed.append({"key": shown_name(key), "message": message, **hint(by_key.get(key), level)})
        return ToolError("validation_failed", fields=listed)

    def preview(self, values: JSON) -> str:
        """ "status: new | ticket: BUG-1 | title: Login": one line, selects first, the rest in schema order, no empties.

        Strings as they are, but that control characters and those that turn the direction of writing become spaces and
        spaces in a row become one; anything else as JSON; formulas are left out.
        """
        line = ""
        for key in self.preview_order:
            value = values.get(key)
            if value is None or (not value and is_empty(value)):
                continue
            text = value if isinstance(value, str) else to_json(value)
            line += f" | {key}: {text[:PREVIEW_LENGTH]}" if line else f"{key}: {text[:PREVIEW_LENGTH]}"
            if len(line) > PREVIEW_LENGTH:
                break
        if "  " in line or not line.isprintable():  # asking first is cheaper, and every edit pays
            line = " ".join(_UNSEEN.sub(" ", line).split())
        return line if len(line) <= PREVIEW_LENGTH else line[: PREVIEW_LENGTH - 1].rstrip() + "…"

    def complete(self, values: JSON, created_at: str, updated_at: str, today: Callable[[], date]) -> JSON:
        """Every key of the schema with its value: null when empty, formulas computed as of today().

        A value that an earlier schema let in is shown as it is; one whose field was removed is not shown.
        """
        whole = {key: values.get(key) for key in self.checks}
        if self.formulas:
            known = {**values, "created_at": created_at, "updated_at": updated_at}
            day = today()
            for key, formula in self.formulas.items():
                whole[key] = formula(known, day)
        return whole


def in_page(fields: List[JSON]) -> List[JSON]:
    """The fields as every page shows them: without flags that are false and without colours, which the grid needs.

    Our choice, since every page pays for them; the post's page has 1,705 bytes for eleven fields, too few for both.
    """
    shorter = [{name: part for name, part in field.items() if part is not False} for field in fields]
    for field in fields_of(shorter, "select", "multi_select"):
        options = [{"value": option["value"], "label": option["label"]} for option in field["config"]["options"]]
        field["config"] = {**field["config"], "options": options}
    return shorter


def hint(field: Optional[JSON], level: str) -> JSON:
    if field is None:
        return {}
    if field["type"] in ("select", "multi_select"):
        options = field["config"]["options"]
        if level == "values":
            return {"allowed": [option["value"] for option in options]}
        return {"allowed": [{"value": option["value"], "label": option["label"]} for option in options]}
    low, high = bounds(field["type"], field["config"])
    return {name: bound for name, bound in (("min", low), ("max", high)) if bound is not None}


def field_check(field: JSON) -> Check:
    """The type's check; for a required field with the empties put in front. (`clearable` is what takes null.)"""
    check = TYPES[field["type"]].check(field["type"], field["config"])
    if field["is_required"]:
        return lambda value: "is required and cannot be empty" if is_empty(value) else check(value)
    return check


# --- a valid schema --------------------------------------------------------------------------------------------------

FIELD_KEYS = ("key", "label", "type", "is_required", "is_unique", "config")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")  # names that a formula can use
_CURRENCY = re.compile(r"[A-Z]{3}")
_name_problem = string_check(IDENTIFIER)  # of a label, an option, a channel that is pointed to
RESERVED_KEYS = (*ITEM_DATES, "days_since")


def schema_problem(fields: Any) -> Optional[str]:
    """Why these cannot be a channel's fields; the first reason only, since it is a person who is told."""
    if type(fields) is not list or not 1 <= len(fields) <= MAX_FIELDS:
        return f"fields must be a list of 1 to {MAX_FIELDS} fields"
    problem = json_problem(fields)
    if problem:
        return f"fields {problem}"
    keys = set()
    for index, field in enumerate(fields):
        problem = field_problem(field)
        if problem:
            return f"fields[{index}] {problem}"
        if field["key"] in keys:
            return f"fields[{index}] has the key {shown(field['key'])} for the second time"
        keys.add(field["key"])
    for field in fields_of(fields, "formula"):
        try:
            formula_of(field, fields)
        except ValueError as error:
            return f"the expression of {field['key']} {error}"
    if len(to_json(fields)) > MAX_SCHEMA_TEXT:
        return f"fields must be at most {MAX_SCHEMA_TEXT} characters of JSON"
    return None


def field_problem(field: Any) -> Optional[str]:
    if not isinstance(field, dict) or field.keys() != set(FIELD_KEYS):
        return f"must be an object with the keys {', '.join(FIELD_KEYS)}"
    key, kind, config = field["key"], field["type"], field["config"]
    if not isinstance(key, str) or not _KEY.fullmatch(key) or key in RESERVED_KEYS:
        return f"must have a key of letters, digits and _ that is none of {', '.join(RESERVED_KEYS)}, got {shown(key)}"
    if _name_problem(field["label"]):
        return f"must have a label of 1 to 200 characters, got {shown(field['label'])}"
    if not isinstance(kind, str) or kind not in TYPES:
        return f"must have one of the {len(TYPES)} types, got {shown(kind)}"
    if not isinstance(field["is_required"], bool) or not isinstance(field["is_unique"], bool):
        return "must have true or false as is_required and is_unique"
    if kind == "formula" and (field["is_required"] or field["is_unique"]):
        return "is computed, so it can be neither required nor unique"
    if not isinstance(config, dict) or not config.keys() <= set(TYPES[kind].config):
        return f"must have a config with no other keys than {list(TYPES[kind].config)}"
    return config_problem(kind, config)


def config_problem(kind: str, config: JSON) -> Optional[str]:
    for name, highest in (("max_length", MAX_TEXT), ("max_stars", 100)):
        if name in config and integer_check({"minimum": 1, "maximum": highest})(config[name]):
            return f"must have an integer from 1 to {highest} as {name}, got {shown(config[name])}"
    low, high = bounds(kind, config)
    if any(isinstance(bound, bool) or not isinstance(bound, (int, float, type(None))) for bound in (low, high)):
        return "must have numbers as min and max"
    if low is not None and high is not None and low > high:
        return f"must not have a min of {low} above its max of {high}"
    if "currency" in config and not (isinstance(config["currency"], str) and _CURRENCY.fullmatch(config["currency"])):
        return f"must have a currency of three capital letters, got {shown(config['currency'])}"
    if kind in ("select", "multi_select"):
        return options_problem(config.get("options"))
    if kind == "relation" and _name_problem(config.get("record_channel_id")):
        return "must name the record_channel_id that it points to"
    if kind == "formula" and not isinstance(config.get("expression"), str):
        return "must have an expression"
    return None


def options_problem(options: Any) -> Optional[str]:
    if not isinstance(options, list) or not 1 <= len(options) <= MAX_OPTIONS:
        return f"must have a list of 1 to {MAX_OPTIONS} options"
    seen = set()
    for option in options:
        if not isinstance(option, dict) or option.keys() != {"value", "label", "color"}:
            return "must have options of {value, label, color}"
        for text in option.values():
            if _name_problem(text):
                return f"must have options whose parts are strings of 1 to 200 characters, got {shown(text)}"
        if option["value"] in seen:
            return f"must not have the option value {shown(option['value'])} twice"
        seen.add(option["value"])
    return None


def fields_of(fields: List[JSON], *types: str) -> List[JSON]:
    return [field for field in fields if field["type"] in types]


def formula_of(field: JSON, fields: List[JSON]) -> Formula:
    numbers: Collection[str] = [other["key"] for other in fields_of(fields, *NUMBER_TYPES)]
    dates = [other["key"] for other in fields_of(fields, "date")]
    return parse_formula(field["config"]["expression"], numbers, [*dates, *ITEM_DATES])
