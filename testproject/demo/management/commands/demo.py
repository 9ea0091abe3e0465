"""`manage.py demo`: sign-ups, orders, failures, retries, dead letters and a repair, for real.

It succeeds only if the database says at the end what was promised at the beginning.
"""

import os
import shutil
import signal
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from django_nobroker import Queue
from django_nobroker.models import Job
from testproject.demo import promises, stage, tally, visitors
from testproject.demo.progress import Progress
from testproject.demo.warehouse import Warehouse
from testproject.demo.worker import WorkerProcess
from testproject.shop.models import Order, Product

# Seconds that all jobs together may take before the demonstration gives up.
PATIENCE = 60.0
LABEL, WIDTH = 14, 100


class Command(BaseCommand):
    help = "Shows the whole way of a job, from a page of the shop to the dead letters and back."
    requires_system_checks = ()  # later, when there is a database to look at

    def handle(self, *args: Any, **options: Any) -> None:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self._play()
        except KeyboardInterrupt:
            self.stderr.write("\nStopped; nothing is left running.")
            sys.exit(130)
        except visitors.Refused as error:
            raise CommandError(str(error)) from error
        finally:
            signal.signal(signal.SIGTERM, before)

    def _play(self) -> None:
        started = time.monotonic()
        self.stdout.write(self.style.MIGRATE_HEADING("A small shop, and its background jobs"))
        self.stdout.write("")
        self._open_shop()
        self._sign_up()
        self._roll_back()
        with Warehouse() as warehouse:
            self._order()
            log = settings.VAR / "worker.log"
            with WorkerProcess(log, SHOP_WEBHOOK_URL=warehouse.url) as worker:
                self._work(worker, warehouse)
                before = tally.count()
                requeued = self._requeue(warehouse)
                self._wait(worker)
                code = worker.stop()
            after = tally.count()
            self._say("Done", f"the worker was asked to stop, and left with exit code {code}.")
        self.stdout.write("\n" + "\n".join(tally.table(before, requeued, after)))
        self.stdout.write(
            "\nJobs, counted in the database; retried: tried again before the requeue.\n"
        )
        broken = promises.broken(before, requeued, after, warehouse)
        if code:
            broken.append("the worker left with exit code 0")
        if broken:
            raise CommandError(f"Not as promised: {'; '.join(broken)}.")
        self._farewell(time.monotonic() - started)

    def _open_shop(self) -> None:
        stage.clear()
        self.check(databases=[connection.alias])
        name = connection.settings_dict["NAME"]
        where = _relative(name) if connection.vendor == "sqlite" else name
        self._say("Database", f"new and migrated: {connection.display_name}, {where}.")
        visitors.stock()
        self._say(
            "Catalogue",
            f"{Product.objects.count()} products; saving one enqueued its thumbnails. "
            "One picture is an error page.",
        )

    def _sign_up(self) -> None:
        self._browsers = []
        with Progress(self.stdout, "signing up", len(visitors.NAMES)) as progress:
            for browser in visitors.sign_up_all():
                self._browsers.append(browser)
                progress.show(len(self._browsers))
        users, mails = get_user_model().objects.count(), Job.objects.filter(queue="emails").count()
        self._say(
            "Sign-ups",
            f"{users} customers through /signup/; each request committed its user and its "
            f"welcome mail ({mails}) together.",
        )

    def _roll_back(self) -> None:
        mails = Job.objects.filter(queue="emails").count()
        status = visitors.fail_to_sign_up()
        users = get_user_model().objects.filter(username=visitors.UNLUCKY).count()
        left = Job.objects.filter(queue="emails").count() - mails
        self._say(
            "Roll-back",
            f"one sign-up failed after it had enqueued its mail (HTTP {status}): {users} users "
            f"and {left} jobs are left of it.",
        )
        if (status, users, left) != (500, 0, 0):
            raise CommandError("The failed sign-up was to leave nothing behind.")

    def _order(self) -> None:
        total = len(self._browsers) * visitors.ORDERS_EACH
        with Progress(self.stdout, "ordering", total) as progress:
            for done, _ in enumerate(visitors.order_all(self._browsers), 1):
                progress.show(done)
        self._say(
            "Orders",
            f"{Order.objects.count()} placed; each enqueued a mail and a webhook with "
            f"subject=order. {Job.objects.filter(state='ready').count()} jobs wait for a worker.",
        )

    def _work(self, worker: WorkerProcess, warehouse: Warehouse) -> None:
        self._say("Worker", f"manage.py nobroker_work, a second process (pid {worker.pid}).")
        self._wait(worker)
        calls, failed = warehouse.calls.total(), warehouse.calls[503]
        self._say("Warehouse", f"answered {calls} webhook calls, {failed} of them with 503.")
        for queue in ("thumbnails", "webhooks"):
            letters = Queue(queue).dlq()
            if letters:
                self._say("Dead letters", f"{len(letters)} in {queue}: {_reason(letters[0])}")

    def _requeue(self, warehouse: Warehouse) -> dict[str, int]:
        warehouse.repair()
        visitors.repair_picture()
        requeued = {queue: Queue(queue).requeue_dead() for queue in tally.count()}
        self._say(
            "Repair",
            "the warehouse works, the picture is a picture; "
            f"{sum(requeued.values())} dead letters are requeued.",
        )
        return requeued

    def _wait(self, worker: WorkerProcess) -> None:
        """Wait until every job is done or dead."""
        deadline = time.monotonic() + PATIENCE
        with Progress(self.stdout, "working", Job.objects.count()) as progress:
            while True:
                counts = tally.count().values()
                done, dead = (sum(getattr(row, key) for row in counts) for key in ("done", "dead"))
                progress.show(done + dead, f"{dead} dead" if dead else "")
                if not any(row.open for row in counts):
                    return
                if not worker.running:
                    raise CommandError(f"The worker ended too early:\n{worker.last_words()}")
                if time.monotonic() > deadline:
                    raise CommandError(f"The jobs took too long:\n{worker.last_words()}")
                time.sleep(0.05)

    def _farewell(self, seconds: float) -> None:
        python, manage = _relative(sys.executable), _relative(settings.BASE_DIR / "manage.py")
        self.stdout.write(self.style.SUCCESS(f"All as promised, in {seconds:.0f} s."))
        self.stdout.write(
            f"The mails are in {_relative(settings.MAIL_DIR)}. "
            f"To look around:\n  {python} {manage} runserver"
        )

    def _say(self, step: str, text: str) -> None:
        label = self.style.MIGRATE_LABEL(f"{step:<{LABEL}}")
        width = min(shutil.get_terminal_size().columns, WIDTH) - LABEL
        self.stdout.write(label + f"\n{'':<{LABEL}}".join(textwrap.wrap(text, max(width, 30))))
        self.stdout.flush()


def _reason(job: Job) -> str:
    lines = (job.last_error or "").strip().splitlines()
    return lines[-1] if lines else job.error_class


def _relative(path: Path | str) -> str:
    """Return the path as one would type it here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative
