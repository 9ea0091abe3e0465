"""Workers run inside a test, none of them for ever.

In a TestCase they work on the test's own connection, in a TransactionTestCase on threads.
"""

import logging
import threading
import time

from django.db import connections

from django_nobroker.models import Job
from django_nobroker.worker import Worker, WorkerOptions

# Seconds after which whatever is waited for will not come. Nothing is measured by it.
DEADLINE = 60.0


class Quiet:
    """Mixin: keeps off the terminal what a test provokes; assertLogs still sees it."""

    def setUp(self):
        super().setUp()
        logger = logging.getLogger("django_nobroker")
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        self.addCleanup(logger.setLevel, level)


def worker(handler=None, queues=("default",), **options):
    """Return a worker that ends when nothing is due, unless the options say otherwise."""
    given = {"burst": True, "poll_interval": 0.01, "handle_signals": False, **options}
    return Worker.serving(WorkerOptions.checked(queues=queues, **given), handler)


def work(handler=None, queues=("default",), **options):
    """Work until nothing is due; return what was done."""
    return run(worker(handler, queues, **options))


def run(worker):
    """Let a worker run to its end; fail if it does not come to one."""
    late = threading.Event()

    def end():
        late.set()
        worker.stop()

    timer = threading.Timer(DEADLINE, end)
    timer.start()
    try:
        stats = worker.run()
    finally:
        timer.cancel()
        timer.join()
    assert not late.is_set(), f"still working after {DEADLINE} s"
    return stats


class Background:
    """A worker on a thread of its own, from entry to exit of the context."""

    def __init__(self, worker):
        self.worker = worker
        self.stats = self.error = None
        self._thread = threading.Thread(target=self._run, name="worker under test")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self.worker.stop()
        self.wait()

    def wait(self):
        """Wait for its end."""
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), f"still working after {DEADLINE} s"

    def _run(self):
        try:
            self.stats = self.worker.run()
        except BaseException as error:
            self.error = error
        finally:
            connections.close_all()


def eventually(condition):
    """Return what the condition returns, once that is true."""
    until = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < until, f"still not so after {DEADLINE} s"
        time.sleep(0.01)
    return found


def fresh(job):
    """Return the job as it is in the database now."""
    return Job.objects.get(pk=job.pk)


def states(*jobs):
    """Return the states of the jobs in the database now, in the order given."""
    found = dict(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("pk", "state"))
    return [found.get(job.pk) for job in jobs]


class elsewhere:  # noqa: N801 - reads as what it is in a with statement
    """Do the body on a connection of its own, outside the transaction of this thread."""

    def __enter__(self):
        self.before = connections["default"]
        del connections["default"]

    def __exit__(self, *exc_info):
        connections["default"].close()
        connections["default"] = self.before
