"""What a confused or hostile caller might send, and how a test tells that a store has survived it.

Glossary
    value    whatever may stand in place of an argument, JSON or not
    answer   what came of a call: ("result", value) or ("refused", payload)
    watch    a second connection to a store's file, which sees whether anything was committed

SEED and TIMES in the environment choose other cases and more of them: `SEED=7 TIMES=50 python -m unittest …`.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
from typing import Any, Callable, List, Tuple

from arguments import ERROR_CODES, ToolError

SEED = int(os.environ.get("SEED", "1"))
TIMES = int(os.environ.get("TIMES", "1"))
MOST_REFUSED = 20_000  # characters of any refusal, whatever it refuses

Answer = Tuple[str, Any]


class Trap(Exception):
    """Raised by a hostile value when a store runs code of the value's own."""


def trap(*_: Any, **__: Any) -> Any:
    raise Trap


def trapped(base: type, *methods: str) -> type:
    """A subclass of `base` of which no operation can be used safely, not even asking for its class or its hash."""
    common = ("__eq__", "__repr__", "__str__", "__bool__", "__lt__", "__format__", "__reduce_ex__")
    named: Any = dict.fromkeys((*common, *methods), trap)
    return type("Trapped", (base,), {**named, "__hash__": lambda self: hash("query"), "__class__": property(trap)})


EvilObject = trapped(object)
EvilStr = trapped(str, "__len__", "__contains__", "encode", "isascii", "strip")
EvilInt = trapped(int, "__le__", "__ge__", "__gt__", "__sub__", "__abs__")
EvilFloat = trapped(float, "__sub__", "is_integer")
EvilList = trapped(list, "__len__", "__iter__", "__getitem__")
EvilDict = trapped(dict, "__len__", "__iter__", "__getitem__", "__contains__", "keys", "values", "items", "get")


class PlainStr(str):
    pass


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def cycles() -> List[Any]:
    ring: List[Any] = []
    ring.append(ring)
    loop: Any = {}
    loop["again"] = [loop]
    return [ring, loop]


def billion_laughs() -> Any:
    laugh: Any = "ha"
    for _ in range(30):
        laugh = [laugh] * 10
    return laugh


TEXTS: List[str] = [
    "", " ", "a", "-", "\0", "a\0b", "\ud800", "\udfffx", "\n", "\r\n\t", "\x1b[31m", "\x7f\x80\x9f", "%s%n", "../../x",
    "'; DROP TABLE article; --", '" OR 1=1 --', "%' UNION SELECT 1", "NULL", "true", "0", "nan", "[]", "{}", "{'a'}",
    "title : a", '"a" AND "b"', "a NEAR/2 b", "a*", "^a", "(a OR b) NOT c", "text : a", "{text} : a", '""',
    "e\u0301", "Z\u0351\u036b\u0343", "\u0301", "İstanbul", "ß", "ŒUVRE", "\ufb03", "\ufdfa", "\ufdfb\ufdfa", "½ ㏂ ⑴",
    "ﬀ" * 60, "שלום", "\u202eabc\u202c", "مرحبا", "日本語 の 検索", "한국어", "👩\u200d👩\u200d👧", "🇮🇹",
    "\ufeff", "\u2028", "\uffff", "\U0010ffff", "Ａｂｃ", "٣", "²", "_", "__class__", "constructor", "a" * 199,
    "a" * 200, "a" * 201, "ab " * 66, "\u0301\u0323" * 99,
    "2024-02-29", "2026-11-08T09:00:00.000000Z", "2026-11-08T09:00:00+00:00", "2024-02-29T00:00:00Z",
    "2023-02-29T00:00:00Z",
    "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-11-08T24:00:00Z",
    "2026-11-08T09:00:60Z", "2026-11-08T09:00:00.0000000001Z", "2026-11-08 09:00:00", "２026-11-08T09:00:00Z",
]  # fmt: skip

NUMBERS: List[Any] = [
    0, -0.0, 1, -1, 5, 2, 20, 21, 100, 101, 1.0, 0.5, 1e308, 5e-324, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63),
    -(2**63) - 1, 10**5000, -(10**5000), float("nan"), float("inf"), float("-inf"), True, False,
]  # fmt: skip

CONTAINERS: List[Any] = [
    [], {}, [[]], [None], {"": None}, {"a": "\udfff"}, {"a\0": 1}, {1: 2}, {None: 1}, {"a": {1, 2}}, {"a": b"b"},
    (1, 2), {"a": float("nan")}, ["\0"], deep(31), deep(33), deep(100_000), billion_laughs(), [0] * 10_001,
    {"k": "v" * 1_000_001}, dict.fromkeys(map(str, range(3_000))), *cycles(),
]  # fmt: skip

NOT_JSON: List[Any] = [
    b"bytes", bytearray(b"x"), {1, 2}, object(), object, len, range(3), 1j, ToolError("busy"), NotImplemented, ...,
    PlainStr("abc"), EvilStr("abc"), EvilInt(1), EvilFloat(1.0), EvilList([1]), EvilDict(a=1), EvilObject(),
    {PlainStr("query"): 1}, {EvilStr("query"): 1}, {EvilObject(): 1}, [EvilStr("a")], {"a": EvilDict()},
    {"a": EvilInt()},
]  # fmt: skip

HUGE: List[Any] = ["x" * 1_000_000, "x" * 1_000_001, "\u0301\u0323" * 400_000, "\ufdfa" * 5_000, "é " * 9_000]

VALUES: List[Any] = [None, *TEXTS, *NUMBERS, *CONTAINERS, *NOT_JSON, *HUGE]


def text(rng: random.Random) -> str:
    """Any text: now and then one that cannot be kept."""
    if rng.random() < 0.6:
        return rng.choice(TEXTS)
    planes = (0x7F, 0x7F, 0x24F, 0x3FF, 0xFFFF, 0x10FFFF)
    return "".join(chr(rng.randint(0, rng.choice(planes))) for _ in range(rng.randint(0, 30)))


def value(rng: random.Random) -> Any:
    """Any value; the huge ones seldom, for the sake of time."""
    kind = rng.random()
    if kind < 0.4:
        return text(rng)
    if kind < 0.6:
        return rng.choice(NUMBERS)
    if kind < 0.75:
        return rng.choice(CONTAINERS)
    if kind < 0.98:
        return rng.choice(NOT_JSON)
    return rng.choice(HUGE) if kind > 0.999 else None


def spoilt(rng: random.Random, whole: Any) -> Any:
    """The same JSON value with something in it replaced, left out or added. What it was made from stays as it is."""
    kind = type(whole)  # asked like this, since isinstance would spring a trap
    if (kind is not dict and kind is not list) or not whole or rng.random() < 0.1:
        return value(rng)
    copy: Any = kind(whole)
    place: Any = rng.choice(list(copy)) if kind is dict else rng.randrange(len(copy))
    what = rng.random()
    if what < 0.7:
        copy[place] = spoilt(rng, copy[place])
    elif what < 0.85:
        del copy[place]
    elif kind is dict:
        copy[text(rng)] = value(rng)
    else:
        copy.append(copy[place])
    return copy


def strict(json_value: Any) -> None:
    """Fails unless any reader takes this as JSON: finite numbers, valid Unicode, nothing but JSON's own types."""
    written = json.dumps(json_value, allow_nan=False, ensure_ascii=False)
    written.encode()
    if json.loads(written) != json_value:
        raise AssertionError("is not the same after it was written and read as JSON")


def answer(act: Callable[..., Any], *arguments: Any, **named: Any) -> Answer:
    """What came of the call. Whatever is no result and no proper refusal is raised."""
    try:
        result = act(*arguments, **named)
    except ToolError as refusal:
        strict(refusal.payload)
        if next(iter(refusal.payload)) != "error" or refusal.payload["error"] not in ERROR_CODES:
            raise AssertionError("a refusal begins with an error code") from refusal
        if len(str(refusal)) > MOST_REFUSED:
            raise AssertionError("a refusal is short") from refusal
        return "refused", refusal.payload
    strict(result)
    return "result", result


def described(whole: Any) -> str:
    """For a failing test's message: short, and safe whatever it is."""
    try:
        shown = ascii(whole)
    except BaseException as error:  # a trap, or nested too deep
        shown = f"something of which ascii() raises {type(error).__name__}"
    return shown if len(shown) < 2_000 else f"{shown[:2_000]}…"


class Watch:
    """Sees every commit of another connection to the same file, of whatever it may have changed."""

    def __init__(self, path: str) -> None:
        self.db = sqlite3.connect(path)
        self.seen = self.version()

    def version(self) -> int:
        version: int = self.db.execute("PRAGMA data_version").fetchone()[0]
        return version

    def changed(self) -> bool:
        """Whether anything was committed since this was last asked."""
        before, self.seen = self.seen, self.version()
        return before != self.seen

    def close(self) -> None:
        self.db.close()
