"""One key, two transactions: exactly one job remains, and the loser's transaction stays usable."""

from contextlib import contextmanager

from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test import TransactionTestCase

from django_nobroker import Queue
from django_nobroker.models import Job

from .elsewhere import Elsewhere, elsewhere

queue = Queue("keys")
LEVELS = {
    "postgresql": ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"),
    "mysql": ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"),
}


class RolledBack(Exception):
    pass


@contextmanager
def transaction_at(level):
    """Open a transaction of an isolation level, and its snapshot."""
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        # A table that no test writes to, so that SERIALIZABLE has nothing to say about it.
        ContentType.objects.count()
        yield


class TakenKeyTests(TransactionTestCase):
    def levels(self):
        for level in LEVELS.get(connection.vendor, ("the only one",)):
            Job.objects.all().delete()
            Group.objects.all().delete()
            yield level

    @contextmanager
    def snapshot(self, level):
        if connection.vendor == "sqlite":
            # IMMEDIATE: the snapshot is that of the only writer, nothing can be newer.
            with transaction.atomic():
                yield
        else:
            with transaction_at(level):
                yield

    def test_key_committed_after_our_snapshot(self):
        if connection.vendor == "sqlite":
            self.skipTest("SQLite has one writer: nothing can be newer than its snapshot")
        for level in self.levels():
            with self.subTest(level=level):
                with self.snapshot(level):
                    Group.objects.create(name="x")
                    winner = elsewhere(queue.enqueue, "theirs", job_id="k")
                    job = queue.enqueue("ours", job_id="k")
                    self.assertFalse(job.created)
                    self.assertEqual(job.job_id, "k")
                    self.assertIn(job.id, {winner.id, None})
                    if level == "READ COMMITTED":
                        self.assertEqual(job.id, winner.id)
                    Group.objects.create(name="y")
                    queue.enqueue("another")
                self.assertEqual(set(Group.objects.values_list("name", flat=True)), {"x", "y"})
                self.assertEqual([job.payload for job in queue.list_jobs()], ["theirs", "another"])

    def test_key_that_existed_before(self):
        for level in self.levels():
            with self.subTest(level=level):
                before = queue.enqueue("theirs", job_id="k")
                with self.snapshot(level):
                    job = queue.enqueue("ours", job_id="k")
                    self.assertEqual((job.id, job.created), (before.id, False))
                    Group.objects.create(name="y")
                self.assertEqual(Group.objects.count(), 1)

    def race(self, level, *, commits):
        """Return what the second to enqueue one key gets, once the first has ended."""
        try:
            with self.snapshot(level):
                first = queue.enqueue("first", job_id="k")
                self.assertTrue(first.created)
                other = Elsewhere(self.second, level)
                other.wait(0.05)
                if not commits:
                    raise RolledBack
        except RolledBack:
            pass
        return first, other.answer()

    def second(self, level):
        with self.snapshot(level):
            job = queue.enqueue("second", job_id="k")
            Group.objects.create(name="loser")
        return job

    def test_winner_commits(self):
        for level in self.levels():
            with self.subTest(level=level):
                first, second = self.race(level, commits=True)
                self.assertFalse(second.created)
                self.assertIn(second.id, {first.id, None})
                self.assertEqual([job.payload for job in queue.list_jobs()], ["first"])
                self.assertEqual(Group.objects.count(), 1)

    def test_winner_rolls_back(self):
        for level in self.levels():
            with self.subTest(level=level):
                _, second = self.race(level, commits=False)
                self.assertTrue(second.created)
                self.assertEqual([job.payload for job in queue.list_jobs()], ["second"])
                self.assertEqual(Group.objects.count(), 1)

    def test_both_without_a_transaction(self):
        for _ in self.levels():
            both = [Elsewhere(queue.enqueue, number, job_id="k") for number in range(8)]
            jobs = [one.answer() for one in both]
            self.assertEqual(len({job.id for job in jobs}), 1)
            self.assertEqual(sum(job.created for job in jobs), 1)


class LevelTests(TransactionTestCase):
    """Settling inside a handler's own transaction holds at every level."""

    def test_ack_joins_the_transaction(self):
        for level in LEVELS.get(connection.vendor, ()):
            with self.subTest(level=level):
                queue.purge()
                queue.enqueue(0)
                job = queue.lease_one()
                with self.assertRaises(RolledBack), transaction_at(level):
                    queue.ack(job)
                    raise RolledBack
                self.assertEqual(queue.stats().leased, 1)
                with transaction_at(level):
                    queue.ack(job)
                self.assertEqual(queue.stats().done, 1)
