"""What differs between databases: which statements to use, and on which alias."""

from __future__ import annotations

from typing import Any

from django.db import connections, router

from .. import conf
from ..models import Job
from .base import Claim, Dialect, Lane, NewJobs
from .moves import Given, Move, Row
from .mysql import MySQL
from .postgresql import PostgreSQL
from .sqlite import SQLite

__all__ = [
    "Claim",
    "Dialect",
    "Given",
    "Lane",
    "Move",
    "NewJobs",
    "Row",
    "database",
    "dialect",
    "force_base",
]

_PLAIN = Dialect()
_DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSQL(), "mysql": MySQL(), "sqlite": SQLite()}
_forced = False


def database(using: str | None = None) -> str:
    """Return the alias that jobs are written to: the one asked for, the set one, the router's."""
    return using or conf.current().database or str(router.db_for_write(Job))


def dialect(connection: Any) -> Dialect:
    """Return the statements for this connection's database."""
    return _PLAIN if _forced else _DIALECTS.get(connection.vendor, _PLAIN)


def is_tested(connection: Any) -> bool:
    """Return whether the queue's own tests run on this kind of database."""
    return connection.vendor in _DIALECTS


def force_base(on: bool) -> None:
    """Use the plain ORM path on every database, or no longer: the tests prove it on SQLite."""
    global _forced
    _forced = on


def tune(alias: str, schema_editor: Any) -> None:
    """Set the storage of the job table; called by its migration."""
    _DIALECTS.get(connections[alias].vendor, _PLAIN).tune(schema_editor)
