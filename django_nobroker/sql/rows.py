"""Rows of the job table made into Job instances, whatever form the driver gives them in.

How columns are asked for and converted is worked out once for a database: doing it for every
statement would cost more than the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import connections
from django.db.models import Value
from django.db.models.base import ModelState

from ..fields import LATE
from ..models import Job
from .moves import GivenParameter, Move, compile_expression, job_compiler

# What a worker looks at, and what it only hands to a handler: most handlers never ask for it. All
# else of a leased Job is loaded from the database when it is asked for.
AT_ONCE = (
    "id",
    "queue",
    "task",
    "payload_text",
    "priority",
    "attempts",
    "max_attempts",
    "fence",
    "lease_losses",
    "snoozes",
)
LATER = (
    "backend",
    "state",
    "available_at",
    "leased_by",
    "leased_at",
    "lease_expires_at",
    "started_at",
    "unknown_since",
    "job_id",
    "subject",
    "error_class",
    "created_at",
)
LEASED = AT_ONCE + LATER


@dataclass(frozen=True, slots=True)
class Layout:
    """How some columns are asked for, and how what comes back is read.

    `at_once` come first, `converters` are for those of them that need one; `later` has the places
    of the rest.
    """

    select: str
    at_once: tuple[str, ...]
    converters: tuple[tuple[str, Callable[[Any], Any]], ...]
    later: dict[str, int]


@lru_cache
def layout(alias: str, names: tuple[str, ...], time: str) -> Layout:
    """Return the layout of these columns on this database.

    `time` is how a time is asked for, in UTC and without a zone, with {} for the column.
    """
    compiler = job_compiler(connections[alias])
    parts, converters = [], []
    at_once = tuple(name for name in names if name not in LATER)
    for name in names:
        field = _field(name)
        sql, _ = compiler.compile(field.get_col(Job._meta.db_table))
        formatted = _asked_for(compiler, field, sql, time)
        parts.append(formatted)
        # A text that is not asked for in another form comes as it is.
        if name in at_once and hasattr(field, "from_raw") and formatted != sql:
            converters.append((name, field.from_raw))
    later = {name: place for place, name in enumerate(names) if name in LATER}
    return Layout(", ".join(parts), at_once, tuple(converters), later)


def _asked_for(compiler: Any, field: Any, sql: str, time: str) -> str:
    """Return the SQL for a column, or for an expression of its kind, in the form it is read in."""
    if not getattr(field, "is_text", True):
        return time.format(sql)
    formatted: str = field.select_format(compiler, sql, ())[0]
    return formatted


@lru_cache
def future_columns(
    alias: str, names: tuple[str, ...], time: str, move: Move
) -> tuple[str, tuple[Any, ...]]:
    """Return columns for a SELECT, each as it will be once the move is made, and parameters.

    So the row need not be read again after the UPDATE.
    """
    connection: Any = connections[alias]
    compiler = job_compiler(connection)
    sets = move.in_terms_of(GivenParameter)
    parts, params = [], []
    for name in names:
        field = _field(name)
        value = sets.get(name, field.get_col(Job._meta.db_table))
        if not hasattr(value, "resolve_expression"):
            value = Value(value, output_field=field)
        sql, given = compile_expression(connection, value)
        parts.append(_asked_for(compiler, field, sql, time))
        params.extend(given)
    return ", ".join(parts), tuple(params)


def read(alias: str, columns: Layout, rows: Iterable[Sequence[Any]]) -> list[Job]:
    """Return the rows as Job instances; the columns not named are deferred."""
    return [instance(alias, values_of(columns, row)) for row in rows]


def values_of(columns: Layout, row: Sequence[Any]) -> dict[str, Any]:
    """Return what an instance holds of a row: some of it is converted when it is asked for."""
    # Not strict: what is read later follows.
    values = dict(zip(columns.at_once, row, strict=False))
    for name, convert in columns.converters:
        values[name] = convert(values[name])
    values[LATE] = (columns.later, row)
    return values


def instance(alias: str, values: dict[str, Any]) -> Job:
    """Return a Job that holds these values, as one read from the database.

    Model.__init__ would cost more than leasing and settling the row together.
    """
    job = Job.__new__(Job)
    state = ModelState()
    state.adding = False
    state.db = alias
    values["_state"] = state
    job.__dict__ = values
    return job


def _field(name: str) -> Any:
    return Job._meta.get_field(name)
