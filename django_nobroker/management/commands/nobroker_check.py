"""manage.py nobroker_check: before a deploy, what of the queued jobs this release could not run."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_nobroker import readiness, sql, tasks
from django_nobroker.management.database import BAD_USAGE, require_database

FOUND = 1


class Command(BaseCommand):
    """Parse, look, render."""

    help = (
        "Lists queued jobs whose task is gone from this release, or whose arguments no longer fit "
        "it. Run it with the new code on the old queue, before the deploy. Exit code 1 if any."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--database", help="The alias of the database that holds the jobs.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not tasks.SUPPORTED:
            raise CommandError("Tasks need Django 6.0 or newer.", returncode=BAD_USAGE)
        alias = sql.database(options["database"])
        require_database(alias)
        jobs = 0
        for found in readiness.unrunnable(alias):
            jobs += found.count
            self.stdout.write(
                f"{found.task} in queue {found.queue}: {found.count} job(s), the first is "
                f"{found.first}. {found.reason}"
            )
        if jobs:
            raise CommandError(
                f"{jobs} queued job(s) could not be run by this release: keep the old name or "
                "signature until they are done.",
                returncode=FOUND,
            )
        self.stdout.write("Every queued task can be run by this release.")
