"""Reads JSON-RPC 2.0 messages, one a line, from a client that may send anything.

Glossary
    message       a request {jsonrpc, id, method, params}, a notification (no id, never answered) or a response
    failure       what is wrong with a message: the `error` of its answer, {code, message} and sometimes data

Reading is strict: what two readers could take for different things, or could not write again, is refused.

Source: jsonrpc.org/specification
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO, Iterator, List, NoReturn, Optional, Tuple

from arguments import JSON, shown

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603

MAX_LINE = 16 * 2**20  # bytes: a million characters, MAX_TEXT of a call, take at most twelve each when escaped
MAX_DIGITS = 1000  # of an integer: the time to read one grows with their square


class Failure(Exception):
    """A message that cannot be carried out. `error` is the answer's error."""

    def __init__(self, code: int, message: str, data: Optional[JSON] = None) -> None:
        self.error: JSON = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data
        super().__init__(message)


def read_lines(source: BinaryIO) -> Iterator[bytes]:
    """The lines that are not blank. Of a longer one only the first MAX_LINE bytes, so that none can fill the memory."""
    while True:
        line = rest = source.readline(MAX_LINE)
        if not line:
            return
        while len(rest) == MAX_LINE and not rest.endswith(b"\n"):
            rest = source.readline(MAX_LINE)
        if not line.isspace() or len(line) == MAX_LINE:
            yield line


def parse(line: bytes) -> Any:
    """A line's JSON value. Raises Failure."""
    if len(line) >= MAX_LINE:
        raise Failure(PARSE_ERROR, f"a line must be shorter than {MAX_LINE} bytes")
    try:
        return json.loads(
            line.decode(), parse_int=bounded_integer, parse_constant=no_constant, object_pairs_hook=no_duplicates
        )
    except RecursionError:
        raise Failure(PARSE_ERROR, "nested too deeply") from None
    except ValueError as error:  # also of bytes that are not UTF-8
        raise Failure(PARSE_ERROR, f"not JSON: {error}") from None


def bounded_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer has more than {MAX_DIGITS} digits")
    return int(digits)


def no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def no_duplicates(pairs: List[Tuple[str, Any]]) -> JSON:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a name twice")
    return members


def checked_id(message: JSON) -> Any:
    """The id to answer under; None for a notification. Raises Failure for an id that an answer could not repeat."""
    request_id = message.get("id")
    if is_text(request_id):
        return request_id
    # 1e999 is read as infinity, and Python counts true among the integers
    if isinstance(request_id, (int, float)) and not isinstance(request_id, bool) and abs(request_id) != float("inf"):
        return request_id
    if "id" in message:
        raise Failure(INVALID_REQUEST, f"id must be a string or a number, got {shown(request_id)}")
    return None


def is_text(value: Any) -> bool:
    """Whether it is a string without lone surrogates, which JSON can name and UTF-8 cannot carry."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def object_or_absent(members: JSON, name: str) -> JSON:
    """An object that may be left out; null counts as left out (our choice). Raises Failure for anything else."""
    value = members.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Failure(INVALID_PARAMS, f"{name} must be an object, got {shown(value)}")
    return value


def error_answer(request_id: Any, failure: Failure) -> JSON:
    return {"jsonrpc": "2.0", "id": request_id, "error": failure.error}
