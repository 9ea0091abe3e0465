"""Rows of the job table made into Job instances, whatever form the driver gives them in.

How columns are asked for and converted is worked out once for a database: doing it for every
statement would cost more than the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import Value
from django.db.models.base import ModelState

from ..models import Job
from .moves import GivenParameter, Move, compile_expression

# All that a worker needs. The rest of a leased Job is loaded from the database when asked for.
LEASED = (
    "id",
    "queue",
    "task",
    "backend",
    "payload_text",
    "state",
    "priority",
    "available_at",
    "attempts",
    "max_attempts",
    "fence",
    "lease_losses",
    "snoozes",
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


@dataclass(frozen=True, slots=True)
class Layout:
    """How some columns are asked for, and how what comes back is read."""

    names: tuple[str, ...]
    select: str
    converters: tuple[tuple[int, Callable[..., Any]], ...]


def layout(alias: str, names: tuple[str, ...]) -> Layout:
    """Return the layout of these columns on this database."""
    return _layout(alias, names, settings.USE_TZ)


@lru_cache
def _layout(alias: str, names: tuple[str, ...], use_tz: bool) -> Layout:
    connection: Any = connections[alias]
    query = Job._base_manager.using(alias).all().query
    compiler = query.get_compiler(connection=connection)
    parts, converters = [], []
    for index, name in enumerate(names):
        field = _field(name)
        column = field.get_col(Job._meta.db_table)
        sql, params = compiler.compile(column)
        formatted, _ = column.select_format(compiler, sql, params)
        parts.append(formatted)
        # A text that is not asked for in another form comes as it is.
        if hasattr(field, "from_db_value") and (formatted != sql or not field.is_text):
            converters.append((index, field.from_db_value))
    return Layout(names, ", ".join(parts), tuple(converters))


@lru_cache
def future_columns(alias: str, names: tuple[str, ...], move: Move) -> tuple[str, tuple[Any, ...]]:
    """Return columns for a SELECT, each as it will be once the move is made, and parameters.

    So the row need not be read again after the UPDATE.
    """
    connection: Any = connections[alias]
    sets = move.in_terms_of(GivenParameter)
    parts, params = [], []
    for name in names:
        field = _field(name)
        value = sets.get(name, field.get_col(Job._meta.db_table))
        if not hasattr(value, "resolve_expression"):
            value = Value(value, output_field=field)
        sql, given = compile_expression(connection, value)
        parts.append(sql)
        params.extend(given)
    return ", ".join(parts), tuple(params)


def read(connection: Any, columns: Layout, rows: Iterable[Sequence[Any]]) -> list[Job]:
    """Return the rows as Job instances; the columns not named are deferred."""
    names, converters, alias = columns.names, columns.converters, connection.alias
    jobs = []
    for row in rows:
        values = list(row)
        for index, convert in converters:
            values[index] = convert(values[index], None, connection)
        jobs.append(instance(alias, dict(zip(names, values, strict=True))))
    return jobs


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
