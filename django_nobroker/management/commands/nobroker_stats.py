"""manage.py nobroker_stats: what is in each queue, and what keeps it from running."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand

from django_nobroker import sql, stats
from django_nobroker.conf import current
from django_nobroker.models import WorkerProcess
from django_nobroker.stats import QueueReport, QueueStats

HEADER = ("queue", *QueueStats._fields, "waiting", "notes")


class Command(BaseCommand):
    """Parse, count, render."""

    help = "Shows how many jobs of each queue are in each state, and why they may be waiting."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--database", help="The alias of the database that holds the jobs.")
        parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")

    def handle(self, *args: Any, **options: Any) -> None:
        alias = sql.database(options["database"])
        served = served_queues(alias)
        reports = stats.report(alias)
        if options["json"]:
            self.stdout.write(json.dumps([as_dict(report, served) for report in reports]))
            return
        rows = [HEADER, *(as_row(report, served) for report in reports)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
        for row in rows:
            cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:-1], widths[1:-1]), row[-1]]
            self.stdout.write("  ".join(cells).rstrip())
        if not reports:
            self.stdout.write("There are no jobs.")


def served_queues(alias: str) -> set[str]:
    """Return the queues that the workers which are up serve; "*" among them means all."""
    listed = WorkerProcess.objects.using(alias).values_list("queues", flat=True)
    return {name for queues in listed for name in queues.split(", ")}


def notes(report: QueueReport, served: set[str]) -> list[str]:
    """Return what a person should know of a queue that has jobs waiting."""
    if not (report.stats.ready or report.stats.delayed):
        return []
    found = ["paused"] if report.paused else []
    if not served & {report.queue, "*"}:
        found.append("no worker serves it")
    if current().options(report.queue).handler is None:
        found.append("no HANDLER in settings")
    return found


def waiting_seconds(report: QueueReport) -> float | None:
    """Return for how many seconds the first due job of a queue has been waiting."""
    if report.waiting_since is None:
        return None
    return max(0.0, (datetime.now(UTC) - report.waiting_since).total_seconds())


def as_row(report: QueueReport, served: set[str]) -> tuple[str, ...]:
    """Return the cells of a queue's line."""
    waiting = waiting_seconds(report)
    told = "" if waiting is None else f"{waiting:.0f} s"
    return (report.queue, *map(str, report.stats), told, "; ".join(notes(report, served)))


def as_dict(report: QueueReport, served: set[str]) -> dict[str, Any]:
    """Return a queue's line for JSON."""
    return {
        "queue": report.queue,
        **report.stats._asdict(),
        "waiting_seconds": waiting_seconds(report),
        "paused": report.paused,
        "notes": notes(report, served),
    }
