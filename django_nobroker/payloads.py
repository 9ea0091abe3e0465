"""Payloads as JSON text: what is stored comes back equal, or is refused before it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Never

from .exceptions import SerializationError

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 500

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def encode(value: Any, where: str = "payload") -> str:
    """Return `value` as ASCII JSON, which every database stores byte for byte.

    Raises SerializationError, naming the place inside the value, for what JSON cannot hold so
    that it comes back equal (a tuple would come back as a list), for nesting over 500 levels
    and for text over 8 MiB.
    """
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        if len(text) <= MAX_BYTES and _depth(text) <= MAX_DEPTH and json.loads(text) == value:
            return text
    except RecursionError:
        raise SerializationError(f"{where} is nested too deeply, or holds itself.") from None
    except (TypeError, ValueError, UnicodeError) as error:
        raise SerializationError(_complaint(value, where) or f"{where}: {error}.") from None
    if len(text) > MAX_BYTES:
        raise SerializationError(
            f"{where} is {len(text):,} bytes of JSON; at most {MAX_BYTES:,} are stored. "
            "Keep large data in a file or a model and enqueue its key."
        )
    if _depth(text) > MAX_DEPTH:
        raise SerializationError(f"{where} is nested over {MAX_DEPTH} levels deep.")
    raise SerializationError(
        _complaint(value, where) or f"{where} does not come back from JSON as it went in."
    )


def decode(text: str, where: Callable[[], str] = lambda: "payload") -> Any:
    """Return the value that `text` holds; `where` names it in errors.

    Raises SerializationError for text that is not JSON; NaN and Infinity are not JSON.
    """
    try:
        return _DECODER.decode(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise SerializationError(f"{where()} is not JSON: {error}.") from None


def is_too_deep(text: str) -> bool:
    """Return whether a JSON text is nested over 500 levels."""
    return _depth(text) > MAX_DEPTH


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON value")


# Made once: json.loads() would make one for each payload.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _depth(text: str) -> int:
    """Return how deep the arrays and objects of this JSON text are nested."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    deepest = level = 0
    for character in _STRING.sub("", text):
        if character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level -= 1
    return deepest


def _complaint(value: Any, where: str) -> str | None:
    """Name the first place in `value` that JSON cannot give back, or None."""
    try:
        return _first_complaint(value, where)
    except RecursionError:
        return f"{where} is nested too deeply, or holds itself."


def _first_complaint(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, bool | str):
        return None
    if isinstance(value, int):
        return None if _is_printable(value) else f"{where} is an integer too long for JSON."
    if isinstance(value, float):
        return None if value - value == 0 else f"{where} is {value}, which JSON cannot hold."
    if isinstance(value, dict):
        return _mapping_complaint(value, where)
    if isinstance(value, list):
        found = (_first_complaint(item, f"{where}[{index}]") for index, item in enumerate(value))
        return next((complaint for complaint in found if complaint), None)
    hint = "; make it a list" if isinstance(value, tuple | set | frozenset) else ""
    return f"{where} is a {type(value).__name__}, which JSON cannot give back{hint}."


def _mapping_complaint(value: Mapping[Any, Any], where: str) -> str | None:
    for key, item in value.items():
        if not isinstance(key, str):
            return f"{where} has the key {key!r:.80}: keys in JSON are strings."
        complaint = _first_complaint(item, f"{where}[{key!r:.80}]")
        if complaint:
            return complaint
    return None


def _is_printable(number: int) -> bool:
    try:
        return bool(int.__repr__(number))
    except ValueError:  # sys.set_int_max_str_digits()
        return False
