"""A worker that stands still past its lease changes nothing when it moves again."""

import os
import signal
import sqlite3
from contextlib import closing
from unittest import skipIf

from django.db import connection

from django_nobroker import Job, Queue, sql
from django_nobroker.models import Attempt

from .stage import QUICK, ProcessTestCase


def is_writable(path):
    """Return whether nobody holds the lock for writing of a SQLite file."""
    with closing(sqlite3.connect(path, timeout=0.2, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        other.execute("ROLLBACK")
        return True


class FrozenTests(ProcessTestCase):
    nobroker = QUICK | {"VISIBILITY_TIMEOUT": 1.0}

    def freeze(self, attempts):
        """Stop a worker in the middle of a job."""
        Queue("work", max_attempts=attempts).enqueue("job")
        worker = self.worker("hang_first")
        self.wait_for_mark("started")
        self.stop_still(worker)
        return worker

    def stop_still(self, worker):
        """Stop a process, but not while it holds the one lock for writing that SQLite has."""
        while True:
            worker.send(signal.SIGSTOP)
            # The signal is only on its way: the answer counts once all threads stand still.
            os.waitpid(worker.process.pid, os.WUNTRACED)
            if connection.vendor != "sqlite" or is_writable(connection.settings_dict["NAME"]):
                return
            worker.send(signal.SIGCONT)

    def thaw(self, worker):
        """Let the worker go on, and its handler end; return its totals."""
        self.mark("go")
        worker.send(signal.SIGCONT)
        self.wait_for_mark("done")
        worker.stop()
        self.assertIn("lease", worker.said.partition(". Ctrl-C")[2].lower())
        return worker.totals

    def test_a_late_ack_changes_nothing(self):
        frozen = self.freeze(attempts=5)
        other = self.worker("hang_first")
        self.wait_for_states(done=1)
        other.stop()
        before = Job.objects.values().get()
        totals = self.thaw(frozen)
        self.assertEqual(totals["lost leases"], 1)
        self.assertEqual(totals["succeeded"], 0)
        self.assertEqual(Job.objects.values().get(), before)
        self.assertEqual(before["attempts"], 2)
        self.assertEqual(other.totals["succeeded"], 1)
        self.assertEqual(Attempt.objects.count(), 1)

    def test_the_last_attempt_is_lost_and_not_failed(self):
        frozen = self.freeze(attempts=1)
        self.worker("hang_first")
        self.wait_for_states(dead=1)
        before = Job.objects.values().get()
        self.assertIn("lease expired", before["last_error"])
        self.assertEqual(before["error_class"], "django_nobroker.exceptions.LeaseLost")
        self.assertEqual(self.thaw(frozen)["lost leases"], 1)
        self.assertEqual(Job.objects.values().get(), before)

    @skipIf(
        connection.vendor == "sqlite" and not sql.dialect(connection).has_single_writer,
        "on the plain path the parts of a worker take no turns: one is stopped in mid-write",
    )
    def test_a_handler_that_holds_the_interpreter_loses_its_job(self):
        self.queue.enqueue("job")
        stuck = self.worker("hold_interpreter_first")
        self.wait_for_mark("started")
        self.worker("hold_interpreter_first")
        self.wait_for_states(done=1)
        self.mark("go")
        stuck.stop()
        self.assertEqual(stuck.totals["lost leases"], 1)
        self.assertEqual(Job.objects.get().attempts, 2)
