"""A worker without threads: inside a test's transaction, and on a database in memory."""

import threading

from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import TestCase

from django_nobroker import Queue
from tests.processes import finish, spawn
from tests.work import Quiet, fresh, states, work, worker

MEMORY = """
import warnings

warnings.simplefilter("error")
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django_nobroker"],
)
django.setup()
from django.core.management import call_command

from django_nobroker import Queue, Worker

call_command("migrate", verbosity=0)
queue = Queue(max_attempts=1)
queue.enqueue_many(["good", "bad", "good"])


def handler(job):
    if job.payload == "bad":
        raise ValueError("no luck")


async def async_handler(job):
    handler(job)


print(*Worker(queue, handler, idle_timeout=0).run())
queue.requeue_dead()
print(*Worker(queue, async_handler, idle_timeout=0, concurrency=4).run())
print(*queue.stats())
"""


class InlineTests(Quiet, TestCase):
    def test_on_the_callers_own_thread_and_connection(self):
        threads = []

        def handler(job):
            threads.append(threading.current_thread())
            Group.objects.create(name=job.pk)

        jobs = Queue().enqueue_many(range(3))
        stats = work(handler, concurrency=4)
        self.assertEqual(set(threads), {threading.current_thread()})
        self.assertEqual((stats.succeeded, Group.objects.count()), (3, 3))
        self.assertEqual(states(*jobs), ["done"] * 3)

    def test_what_a_handler_wrote_before_it_failed_is_kept(self):
        """As with a connection of its own."""

        def handler(job):
            Group.objects.create(name="kept")
            raise ValueError("no luck")

        Queue(max_attempts=1).enqueue(1)
        work(handler)
        self.assertTrue(Group.objects.filter(name="kept").exists())

    def test_what_broke_the_transaction_is_not(self):
        def handler(job):
            Group.objects.create(name="one")
            Group.objects.create(name="one")

        job = Queue(max_attempts=1).enqueue(1)
        Group.objects.create(name="before")
        work(handler)
        self.assertEqual(states(job), ["dead"])
        self.assertEqual(list(Group.objects.values_list("name", flat=True)), ["before"])

    def test_a_handler_may_use_transactions(self):
        def handler(job):
            with transaction.atomic():
                Group.objects.create(name=job.pk)

        Queue().enqueue_many(range(3))
        self.assertEqual(work(handler).succeeded, 3)
        self.assertEqual(Group.objects.count(), 3)

    def test_a_handler_may_enqueue(self):
        def handler(job):
            if job.payload:
                Queue().enqueue(job.payload - 1)

        Queue().enqueue(5)
        self.assertEqual(work(handler).succeeded, 6)

    def test_stopped_by_a_handler_it_gives_back_the_rest(self):
        jobs = Queue().enqueue_many(range(6))
        one = worker(lambda job: one.stop(), concurrency=3, burst=False)
        one.run()
        self.assertEqual(states(*jobs), ["done", *["ready"] * 5])
        self.assertEqual([fresh(job).attempts for job in jobs], [1, 0, 0, 0, 0, 0])
        self.assertTrue(connection.in_atomic_block)


class MemoryTests(Quiet, TestCase):
    def test_a_database_in_memory(self):
        said = [line for line in finish(spawn("-c", MEMORY)).splitlines() if line[0].isdigit()]
        self.assertEqual(said, ["3 2 1 1 0", "1 0 1 1 0", "0 0 0 2 1 0 3"])
