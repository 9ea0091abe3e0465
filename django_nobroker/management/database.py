"""What every command asks of the database before it starts, and how it ends without it."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db import Error, connections
from django.utils.connection import ConnectionDoesNotExist

from django_nobroker import formats
from django_nobroker.exceptions import DatabaseNotReady
from django_nobroker.models import FORMAT_VERSION

BAD_USAGE = 2
NO_DATABASE = 3
NOT_MIGRATED = 4
UNKNOWN_FORMAT = 5


def require_database(alias: str) -> None:
    """Raise CommandError, with the exit code that is documented for it, unless all is there."""
    try:
        connections[alias].ensure_connection()
        found = formats.version(alias)
    except DatabaseNotReady as error:
        raise CommandError(str(error), returncode=NOT_MIGRATED) from error
    except ConnectionDoesNotExist as error:
        raise CommandError(str(error), returncode=BAD_USAGE) from error
    except Error as error:
        raise CommandError(
            f"The database {alias!r} cannot be used: {error}", returncode=NO_DATABASE
        ) from error
    if found != FORMAT_VERSION:
        raise CommandError(
            f"The job tables are of format {found}; this release knows {FORMAT_VERSION}. "
            "Run the commands of the release that migrated them.",
            returncode=UNKNOWN_FORMAT,
        )
