"""Rows of the job table made into Job instances, whatever form the driver gives them in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Value
from django.db.models.base import ModelState

from ..models import Job

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
    "job_id",
    "subject",
    "created_at",
)


def select_list(connection: Any, names: Sequence[str], alias: str | None = None) -> str:
    """Return the columns as SELECT or RETURNING wants them on this database."""
    compiler = _compiler(connection)
    parts = []
    for expression in _columns(names, alias):
        sql, params = compiler.compile(expression)
        sql, params = expression.select_format(compiler, sql, params)
        parts.append(sql)
    return ", ".join(parts)


def future_columns(connection: Any, sets: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return the leased columns for a SELECT, each as it will be once `sets` is assigned.

    So the row need not be read again after the UPDATE.
    """
    query = Job._base_manager.using(connection.alias).all().query
    compiler = query.get_compiler(connection=connection)
    parts, params = [], []
    for name in LEASED:
        field = _field(name)
        value = sets.get(name, field.get_col(Job._meta.db_table))
        if not hasattr(value, "resolve_expression"):
            value = Value(value, output_field=field)
        sql, given = compiler.compile(value.resolve_expression(query))
        parts.append(sql)
        params.extend(given)
    return ", ".join(parts), params


def read(connection: Any, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Job]:
    """Return the rows as Job instances; the columns not named are deferred."""
    compiler = _compiler(connection)
    converters = compiler.get_converters(_columns(names, None))
    if converters:
        rows = compiler.apply_converters(rows, converters)
    attnames = [_field(name).attname for name in names]
    return [instance(connection.alias, dict(zip(attnames, row, strict=True))) for row in rows]


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


def _columns(names: Sequence[str], alias: str | None) -> list[Any]:
    table = alias or Job._meta.db_table
    return [_field(name).get_col(table) for name in names]


def _field(name: str) -> Any:
    return Job._meta.get_field(name)


def _compiler(connection: Any) -> Any:
    query = Job._base_manager.using(connection.alias).all().query
    return query.get_compiler(connection=connection)
