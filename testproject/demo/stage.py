"""Clears the stage, so that each demonstration starts from nothing."""

import shutil
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError, connection


def clear() -> None:
    """Remove what an earlier demonstration left, and make an empty, migrated database."""
    for directory in (settings.MAIL_DIR, settings.MEDIA_ROOT):
        shutil.rmtree(directory, ignore_errors=True)
    name = connection.settings_dict["NAME"]
    connection.close()
    if connection.vendor == "sqlite":
        # A log left beside a database that is gone would be played into the new one.
        for suffix in ("", "-wal", "-shm"):
            Path(f"{name}{suffix}").unlink(missing_ok=True)
    # What the test runner does for its databases, on every kind of server, done for this one.
    connection.settings_dict["TEST"]["NAME"] = str(name)
    said = StringIO()
    try:
        # It also says, as an error, that there is a database to replace.
        with redirect_stderr(said):
            connection.creation.create_test_db(verbosity=0, autoclobber=True)
    except SystemExit:
        raise CommandError(f"The database could not be made.\n{said.getvalue()}") from None
    except OperationalError as error:
        raise CommandError(f"The database could not be made: {error}") from error
