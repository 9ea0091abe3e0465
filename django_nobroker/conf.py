"""The NOBROKER setting, made into frozen options: one set for the project, one for each queue.

Read when first needed and again after `setting_changed`, never at import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .backoff import BackoffPolicy, checked_backoff
from .durations import seconds_of
from .exceptions import QueueError
from .integers import whole_number
from .policies import MOST_ATTEMPTS

QUEUE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What holds for one queue. All durations are seconds."""

    visibility_timeout: float = 30.0
    max_attempts: int = 5
    backoff: BackoffPolicy = field(default_factory=BackoffPolicy)
    unknown_grace: float = 3600.0
    keep_done: float | None = 86400.0
    keep_dead: float | None = None
    handler: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for the project."""

    database: str | None = None
    notify: bool = True
    defaults: QueueOptions = field(default_factory=QueueOptions)
    queues: Mapping[str, QueueOptions] = field(default_factory=dict)

    def options(self, queue: str) -> QueueOptions:
        """Return the options of a queue: its own, or the project's."""
        return self.queues.get(queue, self.defaults)


def current() -> Settings:
    """Return the settings in force.

    Raises ImproperlyConfigured, with all that is wrong in NOBROKER.
    """
    found, problems = _parsed()
    if problems:
        raise ImproperlyConfigured(" ".join(problem.message for problem in problems))
    return found


def problems() -> list[Problem]:
    """Return what is wrong in NOBROKER, for the system checks."""
    return _parsed()[1]


def checked_queue_name(name: Any) -> str:
    """Return a queue's name; raise QueueError for what is none."""
    if not isinstance(name, str) or not QUEUE_NAME.match(name):
        raise QueueError(
            f"{name!r:.150} is not a queue name: 1 to 128 of A-Z a-z 0-9 _ . and -, no other."
        )
    return str(name)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in NOBROKER: the id of its check, and what to do."""

    id: str
    message: str


def _timeout(value: Any, name: str) -> float:
    return seconds_of(value, name, at_least=0.1)


def _period(value: Any, name: str) -> float:
    return seconds_of(value, name, at_least=0.0)


def _period_or_none(value: Any, name: str) -> float | None:
    return None if value is None else _period(value, name)


def _attempts(value: Any, name: str) -> int:
    return whole_number(value, name, least=1, most=MOST_ATTEMPTS)


def _handler(value: Any, name: str) -> str | None:
    if value is None or (isinstance(value, str) and "." in value.strip(".")):
        return value
    raise QueueError(f"{name} must be the dotted path of a function, not {value!r:.80}.")


def _no_timeout(value: Any, name: str) -> None:
    if value is not None:
        raise QueueError(f"{name} is not supported by this release; leave it at None.")


_OPTIONS = {
    "VISIBILITY_TIMEOUT": ("visibility_timeout", _timeout),
    "MAX_ATTEMPTS": ("max_attempts", _attempts),
    "TIMEOUT": (None, _no_timeout),
    "UNKNOWN_GRACE": ("unknown_grace", _period),
    "BACKOFF": ("backoff", checked_backoff),
    "KEEP_DONE": ("keep_done", _period_or_none),
    "KEEP_DEAD": ("keep_dead", _period_or_none),
    "HANDLER": ("handler", _handler),
}


@cache
def _parsed() -> tuple[Settings, list[Problem]]:
    raw = getattr(settings, "NOBROKER", {})
    if not isinstance(raw, Mapping):
        return Settings(), [Problem("nobroker.E001", "NOBROKER must be a dictionary.")]
    found: list[Problem] = []
    project = {key: value for key, value in raw.items() if key in _OPTIONS}
    defaults = _options(project, QueueOptions(), "NOBROKER", found)
    known = [*_OPTIONS, "DATABASE", "NOTIFY", "QUEUES"]
    found.extend(_unknown("NOBROKER", key, known) for key in raw if key not in known)
    return (
        Settings(
            database=_database(raw.get("DATABASE"), found),
            notify=_notify(raw.get("NOTIFY", True), found),
            defaults=defaults,
            queues=_queues(raw.get("QUEUES", {}), defaults, found),
        ),
        found,
    )


def _queues(raw: Any, defaults: QueueOptions, found: list[Problem]) -> dict[str, QueueOptions]:
    if not isinstance(raw, Mapping):
        found.append(Problem("nobroker.E004", "NOBROKER['QUEUES'] must be a dictionary."))
        return {}
    queues = {}
    for name, options in raw.items():
        where = f"NOBROKER['QUEUES'][{name!r}]"
        try:
            checked_queue_name(name)
        except QueueError as error:
            found.append(Problem("nobroker.E005", f"NOBROKER['QUEUES']: {error}"))
            continue
        if not isinstance(options, Mapping):
            found.append(Problem("nobroker.E004", f"{where} must be a dictionary."))
            continue
        queues[name] = _options(options, defaults, where, found)
    return queues


def _options(
    raw: Mapping[str, Any], base: QueueOptions, where: str, found: list[Problem]
) -> QueueOptions:
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in _OPTIONS:
            found.append(_unknown(where, key, list(_OPTIONS)))
            continue
        name, parse = _OPTIONS[key]
        try:
            parsed = parse(value, f"{where}[{key!r}]")
        except QueueError as error:
            found.append(Problem("nobroker.E003", str(error)))
        else:
            if name:
                values[name] = parsed
    return replace(base, **values)


def _unknown(where: str, key: object, known: list[str]) -> Problem:
    return Problem("nobroker.E002", f"{where} has no key {key!r}; it takes {', '.join(known)}.")


def _database(value: Any, found: list[Problem]) -> str | None:
    if value is None or (isinstance(value, str) and value in settings.DATABASES):
        return value
    found.append(
        Problem("nobroker.E006", f"NOBROKER['DATABASE'] is {value!r}, which is not in DATABASES.")
    )
    return None


def _notify(value: Any, found: list[Problem]) -> bool:
    if isinstance(value, bool):
        return value
    found.append(Problem("nobroker.E007", f"NOBROKER['NOTIFY'] must be a boolean, not {value!r}."))
    return True


def _reset(*, setting: str, **kwargs: Any) -> None:
    if setting in {"NOBROKER", "DATABASES"}:
        _parsed.cache_clear()


setting_changed.connect(_reset, dispatch_uid="django_nobroker.conf")
