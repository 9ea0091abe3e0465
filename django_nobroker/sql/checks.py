"""System checks of databases: versions, and settings of a server that void a promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.db import connections
from django.db.utils import Error as DatabaseError

from .. import conf
from . import database, dialect, is_tested

FLOORS = {
    "MariaDB": (10, 6),
    "MySQL": (8, 0, 16),
    "SQLite": (3, 35),
}


def check_databases(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Return what is wrong with the database of the jobs, if it is among those to be checked."""
    if not databases or conf.problems():
        # A setting that cannot be used is told of by its own check.
        return []
    alias = database()
    if alias not in databases:
        return []
    connection = connections[alias]
    try:
        return [*_version(connection), *_server(connection)]
    except DatabaseError:
        # Not to be reached now; Django says so where it matters.
        return []


def _version(connection: Any) -> list[CheckMessage]:
    if not is_tested(connection):
        return [
            Warning(
                f"The queue is not tested on {connection.display_name}.",
                hint="It takes the plain ORM path. Tested: PostgreSQL, MySQL, MariaDB, SQLite.",
                id="nobroker.W006",
            )
        ]
    floor = FLOORS.get(connection.display_name)
    found = connection.get_database_version()
    if floor is None or found >= floor:
        return []
    wanted = ".".join(map(str, floor))
    return [
        Error(
            f"{connection.display_name} {'.'.join(map(str, found))} is too old for the queue.",
            hint=f"Upgrade to {connection.display_name} {wanted} or newer.",
            id="nobroker.E010",
        )
    ]


def _server(connection: Any) -> list[CheckMessage]:
    problems = dialect(connection).server_problems(connection)
    return [Warning(problem.message, hint=problem.hint, id=problem.id) for problem in problems]
