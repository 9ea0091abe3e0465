"""A change to leased jobs said once, as Django expressions, for one row or for a batch of rows.

What a row is changed to is the caller's; how rows are found and locked is the dialect's. A
value that differs from row to row is asked for by name: on the plain path it is a Value, in a
batch a column of the derived table `given`, and for a whole statement a parameter of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db import connections
from django.db.models import Expression, Field, FloatField, IntegerField, TextField, Value
from django.db.models.sql.subqueries import UpdateQuery

from ..models import Job

Row = Mapping[str, Any]
Given = Callable[[str], Expression]
KINDS: dict[str, Field[Any, Any]] = {
    "float": FloatField(),
    "integer": IntegerField(),
    "text": TextField(),
}


@dataclass(frozen=True, eq=False)
class Move:
    """A change to jobs. Made once, when its module is imported; compiled once for a database."""

    name: str
    sets: Callable[[Given], dict[str, Any]]
    # The given columns beside id and fence, each with a key of KINDS.
    columns: Mapping[str, str] = field(default_factory=dict)
    # Leave out rows that another transaction holds, instead of waiting for it.
    skip_locked: bool = False

    def for_row(self, row: Row) -> dict[str, Any]:
        """Return the assignments for one row."""
        return self.sets(lambda name: Value(row[name], output_field=KINDS[self.columns[name]]))

    def in_terms_of(self, expression: Callable[[str, Field[Any, Any]], Any]) -> dict[str, Any]:
        """Return the assignments with `expression(name, field)` for each given value."""
        return self.sets(lambda name: expression(name, KINDS[self.columns[name]]))

    def values(self, rows: Sequence[Row]) -> list[list[Any]]:
        """Return id, fence and the given columns of each row, as lists."""
        names = ("id", "fence", *self.columns)
        return [[row[name] for name in names] for row in rows]


class GivenColumn(Expression):
    """A column of the derived table `given`."""

    def __init__(self, name: str, output_field: Field[Any, Any]) -> None:
        super().__init__(output_field=output_field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return f"given.given_{self.name}", ()


class GivenParameter(GivenColumn):
    """A parameter of the statement, filled in when that is run."""

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return "%s", (Slot(self.name),)


@dataclass(frozen=True)
class Slot:
    """Stands for a given value among the parameters of a compiled statement."""

    name: str


def filled(params: Sequence[Any], values: Row) -> list[Any]:
    """Return the parameters with the given values in their slots."""
    return [values[item.name] if isinstance(item, Slot) else item for item in params]


@lru_cache
def assignments(alias: str, move: Move, given: type[GivenColumn]) -> tuple[str, tuple[Any, ...]]:
    """Compile what stands behind SET in an UPDATE of the job table."""
    return compile_assignments(connections[alias], move.in_terms_of(given))


def compile_assignments(connection: Any, values: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """Compile what stands behind SET in an UPDATE of the job table to these values."""
    query: Any = Job._base_manager.using(connection.alias).all().query.chain(UpdateQuery)
    query.add_update_values(values)
    sql, params = query.get_compiler(connection=connection).as_sql()
    head = f"UPDATE {connection.ops.quote_name(Job._meta.db_table)} SET "
    return sql.removeprefix(head), tuple(params)


def job_compiler(connection: Any) -> Any:
    """Return the compiler of a query of the job table on this database."""
    return Job._base_manager.using(connection.alias).all().query.get_compiler(connection=connection)


def compile_expression(connection: Any, expression: Any) -> tuple[str, list[Any]]:
    """Compile an expression that uses no column but the job table's."""
    compiler = job_compiler(connection)
    sql, params = compiler.compile(expression.resolve_expression(compiler.query))
    return sql, list(params)
