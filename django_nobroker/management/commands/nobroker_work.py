"""manage.py nobroker_work: run a worker until it is stopped."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from argparse import ArgumentParser
from typing import Any, NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from django_nobroker import sql, stats
from django_nobroker.exceptions import QueueError
from django_nobroker.management.database import BAD_USAGE, require_database
from django_nobroker.worker import Worker, WorkerOptions, WorkerStats

logger = logging.getLogger("django_nobroker")


class Command(BaseCommand):
    """Parse, check that the database is ready, run, and exit with a documented code."""

    help = (
        "Runs background jobs: with the function given, or with the HANDLER of each queue. "
        "SIGINT or SIGTERM lets running jobs finish; a second one leaves at once."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("handler", nargs="?", help="module:function that runs the jobs.")
        add("-q", "--queue", default="*", help="Queues in strict order, a,b; '*' (default): all.")
        add("--exclude", default="", help="Queues to leave out, a,b.")
        add("-c", "--concurrency", type=int, default=1, help="Jobs that run at a time.")
        add("--poll-interval", type=float, default=0.1, help="Seconds between two looks.")
        add("--max-jobs", type=int, help="Stop after so many jobs.")
        add("--max-time", type=float, help="Stop after so many seconds.")
        add("--max-memory", type=float, help="Stop when over so many MiB are in use.")
        add("--idle-timeout", type=float, help="Stop after so many seconds without work.")
        add("--burst", action="store_true", help="Stop when nothing is due.")
        add("--shutdown-timeout", type=float, help="Seconds to wait for running jobs at the end.")
        add("--name", default="", help="A name for the list of workers.")
        add("--database", help="The alias of the database that holds the jobs.")

    def handle(self, *args: Any, **options: Any) -> None:
        show_log(int(options["verbosity"]))
        try:
            worker = self._worker(options)
        except (QueueError, ImproperlyConfigured, ImportError) as error:
            raise CommandError(str(error), returncode=BAD_USAGE) from error
        require_database(worker.alias)
        if options["verbosity"]:
            # Not before a signal would be heeded: what reads the line may send one at once.
            worker.on_start = lambda: self._announce(worker)
        for name in stats.unknown_queues(worker.alias, worker.options.queues or ()):
            logger.warning(
                "Queue %s is not in NOBROKER['QUEUES'] and has no jobs: is its name right?", name
            )
        done = self._run(worker)
        if options["verbosity"]:
            told = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in done._asdict().items())
            self.stdout.write(f"Worker {worker.identity} ended: {told}.")
        self._leave_behind(worker, 0)

    def _run(self, worker: Worker) -> WorkerStats:
        try:
            return worker.run()
        except BaseException:
            if worker.gave_up:
                traceback.print_exc()
                self._leave_behind(worker, 1)
            raise

    def _leave_behind(self, worker: Worker, code: int) -> None:
        """End the process now if it would otherwise wait for handlers that were given up."""
        # Set by Django's own run_from_argv(): not for call_command().
        if worker.gave_up and getattr(self, "_called_from_command_line", False):
            leave(code)

    def _worker(self, options: dict[str, Any]) -> Worker:
        limits = {
            name: options[name]
            for name in (
                "concurrency",
                "poll_interval",
                "max_jobs",
                "max_time",
                "max_memory",
                "idle_timeout",
                "shutdown_timeout",
                "burst",
                "name",
            )
        }
        queues = None if options["queue"] == "*" else names(options["queue"])
        return Worker.serving(
            WorkerOptions.checked(queues=queues, exclude=names(options["exclude"]), **limits),
            options["handler"],
            using=options["database"],
        )

    def _announce(self, worker: Worker) -> None:
        served = ", ".join(worker.options.queues or ("all queues",))
        without = f" without {', '.join(worker.options.exclude)}" if worker.options.exclude else ""
        dialect = sql.dialect(connections[worker.alias])
        self.stdout.write(
            f"Worker {worker.identity} serves {served}{without}, {worker.options.concurrency} at "
            f"a time, on {worker.alias!r} ({dialect.name}). Ctrl-C stops it."
        )


def names(text: str) -> list[str]:
    """Return the queue names of a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def show_log(verbosity: int) -> None:
    """Print the queue's log unless the project's LOGGING has made other arrangements."""
    logger = logging.getLogger("django_nobroker")
    if logger.hasHandlers() or verbosity == 0:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)


def leave(code: int) -> NoReturn:
    """End the process without waiting for handlers that would not stop."""
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os._exit(code)
