"""Two transactions race on one key: one job remains, and the loser's transaction goes on."""

import threading
import time

from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from django.test import TransactionTestCase

from django_nobroker import Job, Queue
from tests.processes import alone

from .stage import DEADLINE

# Seconds for which the second one is left waiting for the first. Too short, and less is tested.
APART = 0.3


class Rival(threading.Thread):
    """A transaction of its own that enqueues the key and then writes something else."""

    def __init__(self, isolation=None, *, snapshot=False):
        super().__init__(daemon=True)
        self.isolation = isolation
        self.snapshot = snapshot
        self.has_begun = threading.Event()
        self.may_enqueue = threading.Event()
        self.is_waiting = threading.Event()
        self.job = self.error = None

    def run(self):
        try:
            with isolated(self.isolation):
                if self.snapshot:
                    Job.objects.count()
                self.has_begun.set()
                self.may_enqueue.wait(DEADLINE)
                self.is_waiting.set()
                self.job = Queue("work").enqueue("second", job_id="key")
                Group.objects.create(name="second")
        except Exception as error:
            self.error = error
        finally:
            self.has_begun.set()
            connections.close_all()


def isolated(level):
    """Return a transaction of the isolation level, None for the usual one."""
    if level and connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    return Isolated(level) if level and connection.vendor == "postgresql" else transaction.atomic()


class Isolated(transaction.Atomic):
    """A block whose first statement sets its isolation level."""

    def __init__(self, level):
        super().__init__(using=None, savepoint=True, durable=False)
        self.level = level

    def __enter__(self):
        super().__enter__()
        with connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {self.level}")


@alone
class KeyRaceTests(TransactionTestCase):
    def race(self, rival, *, commit):
        """Enqueue the key first, have the rival wait for it, then commit or roll back."""
        if rival.snapshot:
            rival.start()
            self.assertTrue(rival.has_begun.wait(DEADLINE))
        with transaction.atomic():
            first = Queue("work").enqueue("first", job_id="key")
            if not rival.snapshot:
                rival.start()
            rival.may_enqueue.set()
            # On SQLite a second transaction waits before it begins.
            rival.is_waiting.wait(APART)
            time.sleep(APART)
            self.assertIsNone(rival.job, "the second one waits for the first")
            transaction.set_rollback(not commit)
        rival.join(DEADLINE)
        self.assertFalse(rival.is_alive(), "the second one still waits")
        self.assertIsNone(rival.error)
        self.assertTrue(Group.objects.filter(name="second").exists())
        [job] = Job.objects.all()
        return first, rival.job, job

    def test_the_loser_gets_the_winners_job(self):
        first, second, job = self.race(Rival(), commit=True)
        self.assertEqual((job.id, job.payload), (first.id, "first"))
        self.assertEqual((second.id, second.created), (first.id, False))

    def test_the_second_wins_when_the_first_rolls_back(self):
        _, second, job = self.race(Rival(), commit=False)
        self.assertEqual((job.id, job.payload), (second.id, "second"))
        self.assertTrue(second.created)

    def test_a_snapshot_that_cannot_see_the_winner(self):
        if connection.vendor == "sqlite":
            self.skipTest("one transaction at a time")
        for level in ("REPEATABLE READ", "SERIALIZABLE"):
            if connection.vendor == "mysql" and level == "SERIALIZABLE":
                continue  # its reads lock; the one below has no snapshot
            with self.subTest(level=level):
                first, second, job = self.race(Rival(level, snapshot=True), commit=True)
                self.assertEqual((job.id, job.payload), (first.id, "first"))
                self.assertEqual((second.job_id, second.created), ("key", False))
                self.assertIn(second.id, (None, first.id))
                Job.objects.all().delete()
                Group.objects.all().delete()

    def test_a_strict_second_wins_when_the_first_rolls_back(self):
        if connection.vendor == "sqlite":
            self.skipTest("one transaction at a time")
        _, second, job = self.race(Rival("REPEATABLE READ", snapshot=True), commit=False)
        self.assertEqual((job.id, job.payload), (second.id, "second"))
