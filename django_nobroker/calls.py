"""The payload of a job that runs a task: its arguments, and when it was asked to run.

`{"args": [...], "kwargs": {...}}`, and `"run_after"` with an ISO 8601 time if the task had one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from . import payloads
from .exceptions import SerializationError


@dataclass(frozen=True, slots=True)
class Call:
    """What a task is called with."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    run_after: datetime | None = None

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of the job."""
        payload: dict[str, Any] = {"args": self.args, "kwargs": self.kwargs}
        if self.run_after is not None:
            payload["run_after"] = self.run_after.isoformat()
        return payload


def made(args: Sequence[Any], kwargs: Mapping[str, Any], run_after: datetime | None) -> Call:
    """Return the call in terms of JSON, as Django's own backends make it: tuples become lists.

    Raises TypeError or ValueError for a value that Django's normalize_json() refuses, naming its
    place, and SerializationError for one that is nested without end.
    """
    try:
        plain = _plain({"args": list(args), "kwargs": dict(kwargs)}, "")
    except RecursionError:
        raise SerializationError(
            "The arguments are nested too deeply, or hold themselves."
        ) from None
    return Call(args=plain["args"], kwargs=plain["kwargs"], run_after=run_after)


def read(text: str, where: Callable[[], str]) -> Call:
    """Return the call that a payload describes; raise SerializationError for any other payload.

    `where` names the payload in errors.
    """
    payload = payloads.decode(text, where)
    if payloads.is_too_deep(text):
        raise SerializationError(f"{where()} is nested too deeply.")
    if not isinstance(payload, dict):
        payload = {"args": None}
    args, kwargs = payload.get("args", []), payload.get("kwargs", {})
    if not (isinstance(args, list) and isinstance(kwargs, dict)):
        raise SerializationError(
            f'{where()} is not that of a task: {{"args": [...], "kwargs": {{...}}}} is wanted.'
        )
    return Call(args, kwargs, _time(payload.get("run_after")))


def stored(call: Call) -> str:
    """Return the payload of a call as JSON text; raise SerializationError if it cannot be."""
    return payloads.encode(call.payload)


def read_result(text: str | None) -> Any:
    """Return the value that a result's JSON text holds."""
    return None if text is None else payloads.decode(text, lambda: "the result")


def stored_result(value: Any) -> str:
    """Return a task's return value as JSON text; raise for one that JSON cannot hold.

    TypeError as Django's own backends raise it, SerializationError for the rest.
    """
    return "null" if value is None else payloads.encode(_plain(value, "the return value"))


def _plain(value: Any, where: str) -> Any:
    """Return a value in terms of JSON; an error names the first place that has none."""
    from django.utils.json import normalize_json

    try:
        return normalize_json(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} in {_place(value, where) or 'the value'}") from None


def _place(value: Any, where: str) -> str:
    """Return the place of the innermost value that normalize_json() refuses."""
    from django.utils.json import normalize_json

    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        inside = value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        inside = enumerate(value)
    for key, item in inside:
        try:
            normalize_json(item)
        except (TypeError, ValueError):
            name = f"[{key!r:.80}]" if where else f"{key}"
            return _place(item, f"{where}{name}")
    return where


def _time(text: Any) -> datetime | None:
    """Return the time that was asked for; one that cannot be read changes nothing of the call."""
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
