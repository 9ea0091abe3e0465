"""The version of the tables: written by migrate, and refused by a worker that does not know it."""

from __future__ import annotations

from django.db import connections
from django.db.utils import Error

from .exceptions import DatabaseNotReady
from .models import FORMAT_VERSION, Format, Job

KEY = "format"


def write(alias: str) -> None:
    """Note the version of this release, where the tables are.

    Never a lower one than is noted: an older release that runs migrate changes no table.
    """
    if Format._meta.db_table in connections[alias].introspection.table_names():
        noted = Format.objects.using(alias)
        noted.get_or_create(key=KEY, defaults={"version": FORMAT_VERSION})
        noted.filter(key=KEY, version__lt=FORMAT_VERSION).update(version=FORMAT_VERSION)


def version(alias: str) -> int:
    """Return the version of the tables; without a row they are current.

    Raises DatabaseNotReady if the tables are missing.
    """
    try:
        found = Format.objects.using(alias).filter(key=KEY).values_list("version", flat=True)
        return found.first() or FORMAT_VERSION
    except Error as error:
        if Job._meta.db_table in connections[alias].introspection.table_names():
            raise
        raise DatabaseNotReady(
            f"The database {alias!r} has no table {Job._meta.db_table}: run manage.py migrate."
        ) from error
