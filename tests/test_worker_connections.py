"""Connections behind async handlers, and connections that the server ends."""

import contextlib

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection, connections
from django.test import TransactionTestCase

from django_nobroker import Queue
from tests.test_worker_sessions import MESSES, opened
from tests.work import Background, Quiet, eventually, fresh, states, work, worker


class AsyncTests(Quiet, TransactionTestCase):
    def test_the_orm_from_async_handlers(self):
        def create(name):
            Group.objects.create(name=name)

        async def handler(job):
            if job.payload == "sync":
                create("no")
            elif job.payload == "async":
                await Group.objects.acreate(name="async")
            else:
                await sync_to_async(create)(f"wrapped {job.pk}")

        queue = Queue(max_attempts=1)
        with opened() as found:
            wrong, right, *wrapped = queue.enqueue_many(["sync", "async", *["wrapped"] * 20])
            work(handler, concurrency=4)
        self.assertEqual(states(wrong, right, *wrapped), ["dead", *["done"] * 21])
        self.assertIn("SynchronousOnlyOperation", fresh(wrong).error_class)
        self.assertEqual(Group.objects.count(), 21)
        mine = connections["default"]
        self.assertEqual([one for one in found if one.connection and one is not mine], [])

    def test_messes_from_async_handlers(self):
        async def handler(job):
            if job.payload == "normal":
                await sync_to_async(Group.objects.create)(name=f"normal {job.pk}")
            else:
                await sync_to_async(MESSES[job.payload])()

        queue = Queue(max_attempts=1)
        for number, mess in enumerate(MESSES):
            with self.subTest(mess.__name__):
                first, second = queue.enqueue_many([number, "normal"])
                work(handler)
                self.assertIn(fresh(first).state, ("done", "dead"))
                self.assertEqual((fresh(second).state, fresh(second).last_error), ("done", None))
                self.assertFalse(Group.objects.filter(name="left over").exists())


class KilledTests(Quiet, TransactionTestCase):
    """Connections that the server ends between two jobs."""

    def kill_all(self):
        """End every session of this database but our own; wait until they are gone."""
        if connection.vendor == "postgresql":
            others = (
                "SELECT pid FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            kill = "SELECT pg_terminate_backend({})"
        else:
            others = (
                "SELECT id FROM information_schema.processlist"
                " WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            )
            kill = "KILL {}"
        with connection.cursor() as cursor:
            cursor.execute(others)
            victims = {pid for (pid,) in cursor.fetchall()}
            for pid in victims:
                with contextlib.suppress(Exception):
                    cursor.execute(kill.format(pid))

            def gone():
                cursor.execute(others)
                return not victims & {pid for (pid,) in cursor.fetchall()}

            eventually(gone)
        return len(victims)

    def test_the_next_jobs_first_query_works(self):
        if connection.vendor == "sqlite":
            self.skipTest("There is no server to end a session")
        queue = Queue()
        with Background(worker(lambda job: Group.objects.create(name=job.pk), burst=False)) as up:
            for _ in range(3):
                first = queue.enqueue(1)
                eventually(lambda job=first: states(job) == ["done"])
                self.assertGreaterEqual(self.kill_all(), 2)
                second = queue.enqueue(2)
                eventually(lambda job=second: fresh(job).attempts and fresh(job).state != "leased")
                second = fresh(second)
                self.assertEqual(
                    (second.state, second.attempts, second.last_error), ("done", 1, None)
                )
        self.assertIsNone(up.error)
        self.assertEqual((up.stats.failed, up.stats.lost_leases), (0, 0))
