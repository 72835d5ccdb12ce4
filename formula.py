"""Formula fields: a small language that is parsed once, when a schema is saved, and computed whenever an item is read.

Glossary
    expression    text of at most MAX_EXPRESSION characters: "points * 2 + days_since(created_at)"
    formula       the parsed expression: (values, today) -> int | float | None
    values        {key: value} of one item, its created_at and updated_at among them
    today         a UTC date

Grammar
    sum     = product {("+" | "-") product}
    product = factor {("*" | "/") factor}
    factor  = "-" factor | "(" sum ")" | number | field | "days_since(" date ")"

Our choice, since the post names only `expression`: a formula is arithmetic and the age of a date, never Python. What
cannot be computed (a part is empty or no number, a division by zero, a result that JSON cannot hold) is null: whoever
reads the item could do nothing about an error.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any, Callable, Collection, List, Mapping, Optional, Tuple, Union

from arguments import INT64_MAX

Number = Union[int, float]
Formula = Callable[[Mapping[str, Any], date], Optional[Number]]
# Inside a formula None is not a number but an exception, so that each operator needs no case for it.
Part = Callable[[Mapping[str, Any], date], Number]

MAX_EXPRESSION = 500  # characters
MAX_NESTING = 20  # parentheses and minus signs inside each other: both parser and formula recurse no deeper

TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_]\w*)|([-+*/()]))", re.ASCII)


class Empty(Exception):
    """A part of the formula has no number to give."""


def parse_formula(expression: str, numbers: Collection[str], dates: Collection[str]) -> Formula:
    """The formula of an expression over the number fields and dates named.

    Raises ValueError with the end of a sentence: "has no number field \\"titel\\"".
    """
    if len(expression) > MAX_EXPRESSION:
        raise ValueError(f"must be at most {MAX_EXPRESSION} characters long, got {len(expression)}")
    parser = Parser(tokens_of(expression), numbers, dates)
    whole = parser.sum(0)
    if parser.next is not None:
        raise ValueError(f'has "{parser.next}" where it should end')

    def formula(values: Mapping[str, Any], today: date) -> Optional[Number]:
        try:
            result = whole(values, today)
        except (Empty, ZeroDivisionError, OverflowError):
            return None
        if isinstance(result, float):
            return result if result - result == 0 else None  # not of NaN nor the infinities
        return result if abs(result) <= INT64_MAX else None

    return formula


class Parser:
    """Recursive descent, one method for each line of the grammar. Each returns the part that computes what it read."""

    def __init__(self, tokens: List[str], numbers: Collection[str], dates: Collection[str]) -> None:
        self.tokens = tokens
        self.numbers = numbers
        self.dates = dates
        self.position = 0

    @property
    def next(self) -> Optional[str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self, expected: Optional[str] = None) -> str:
        token = self.next
        if token is None:
            raise ValueError(f'ends where "{expected}" is needed' if expected else "ends too early")
        if expected is not None and token != expected:
            raise ValueError(f'has "{token}" where "{expected}" is needed')
        self.position += 1
        return token

    def sum(self, depth: int) -> Part:
        first, rest = self.product(depth), []
        while self.next in ("+", "-"):
            rest.append((self.take() == "+", self.product(depth)))
        return added(first, rest) if rest else first

    def product(self, depth: int) -> Part:
        first, rest = self.factor(depth), []
        while self.next in ("*", "/"):
            rest.append((self.take() == "*", self.factor(depth)))
        return multiplied(first, rest) if rest else first

    def factor(self, depth: int) -> Part:
        if depth > MAX_NESTING:
            raise ValueError(f"must not be nested deeper than {MAX_NESTING} levels")
        token = self.take()
        if token == "-":
            negative = self.factor(depth + 1)
            return lambda values, today: -negative(values, today)
        if token == "(":
            inner = self.sum(depth + 1)
            self.take(")")
            return inner
        if token[0].isdigit():
            constant: Number = float(token) if "." in token else int(token)
            return lambda values, today: constant
        if token == "days_since":
            return self.days_since()
        if token not in self.numbers:
            raise ValueError(f'has no number field "{token}"')
        return field_value(token)

    def days_since(self) -> Part:
        self.take("(")
        key = self.take()
        if key not in self.dates:
            raise ValueError(f'has no date field "{key}"')
        self.take(")")
        return age_of(key)


# --- the parts -------------------------------------------------------------------------------------------------------
# A chain of operators is one part with a loop, not parts inside parts: "1+1+…" must not use up the stack.


def added(first: Part, rest: List[Tuple[bool, Part]]) -> Part:
    def total(values: Mapping[str, Any], today: date) -> Number:
        result = first(values, today)
        for plus, part in rest:
            result = result + part(values, today) if plus else result - part(values, today)
        return result

    return total


def multiplied(first: Part, rest: List[Tuple[bool, Part]]) -> Part:
    def total(values: Mapping[str, Any], today: date) -> Number:
        result = first(values, today)
        for times, part in rest:
            result = result * part(values, today) if times else result / part(values, today)
        return result

    return total


def field_value(key: str) -> Part:
    def value_of(values: Mapping[str, Any], today: date) -> Number:
        value = values.get(key)
        # The type is asked again: what is stored may date from before this schema.
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Empty
        return value

    return value_of


def age_of(key: str) -> Part:
    """Whole days from a date, or from the UTC day of a date-time, to today; negative if it lies ahead."""

    def days(values: Mapping[str, Any], today: date) -> Number:
        try:
            return (today - date.fromisoformat(values[key][:10])).days
        except (KeyError, TypeError, ValueError):
            raise Empty from None

    return days


def tokens_of(expression: str) -> List[str]:
    """The numbers, names and signs of an expression. Raises ValueError at a character that begins none."""
    tokens, position, end = [], 0, len(expression.rstrip())
    while position < end:
        match = TOKEN.match(expression, position)
        if match is None:
            raise ValueError(f'has "{expression[position:].lstrip()[0]}", which formulas do not know')
        tokens.append(match.group(match.lastindex or 0))
        position = match.end()
    return tokens
