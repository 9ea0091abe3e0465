"""Producers, workers and people in each other's way: no conflict reaches any of them."""

import threading

from django.contrib.auth.models import Group
from django.db import connection, connections

from django_nobroker import Job, transitions
from django_nobroker.conf import QueueOptions
from django_nobroker.models import Attempt

from .stage import DEADLINE, QUICK, ProcessTestCase


class Repeating(threading.Thread):
    """Calls a function over and over, on a connection of its own, until it is stopped."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function = function
        self.stopped = threading.Event()
        self.error = None
        self.start()

    def run(self):
        try:
            while not self.stopped.wait(0.02):
                self.function()
        except Exception as error:
            self.error = error
        finally:
            connections.close_all()

    def stop(self):
        """End, and raise what ended it before."""
        self.stopped.set()
        self.join(DEADLINE)
        if self.error is not None:
            raise self.error


class MixedLoadTests(ProcessTestCase):
    nobroker = QUICK | {"VISIBILITY_TIMEOUT": 10.0, "KEEP_DONE": 0.5}
    producers = 4
    jobs = 50
    workers = 3

    def test_with_the_settings_of_django(self):
        self.run_mixed_load()

    def test_with_repeatable_read(self):
        if connection.vendor != "mysql":
            self.skipTest("a project on PostgreSQL would repeat its transactions itself")
        self.database = {"OPTIONS": {"isolation_level": "repeatable read"}}
        self.run_mixed_load()

    def run_mixed_load(self):
        options = ("--mixed", "--max-attempts", 10)
        workers = [self.worker("effect_in_the_end", "-c", 1 + n) for n in range(self.workers)]
        pruning = Repeating(self.prune)
        producers = [self.producer(f"p{n}", self.jobs, *options) for n in range(self.producers)]
        created = 0
        for producer in producers:
            created += int(producer.wait().split()[-1])
        self.wait_for(lambda: not {"ready", "leased"} & self.states().keys(), "the end of all jobs")
        pruning.stop()
        self.stop_all(workers)
        for worker in workers:
            self.assert_no_conflict(worker)
        self.assertEqual(Group.objects.filter(name__startswith="effect ").count(), created)
        self.assertEqual(sum(worker.totals["succeeded"] for worker in workers), created)
        self.assertLessEqual(self.states().keys(), {"done"})
        # Pruned with their jobs; those that remain are of the failures that were meant.
        self.assertFalse(Attempt.objects.exclude(error_class="builtins.ValueError").exists())

    def prune(self):
        transitions.prune(connection.alias, QueueOptions(keep_done=0.2), {})

    def assert_no_conflict(self, program):
        for word in ("eadlock", "Traceback", "ERROR", "serialize", "lease"):
            self.assertNotIn(word, program.said.replace("lost leases", "").replace("leased", ""))


class CancelUnderLoadTests(ProcessTestCase):
    jobs = 400

    def test_cancelling_many_jobs_beside_busy_workers(self):
        payloads = [{"effect": f"job {n}"} for n in range(self.jobs)]
        self.queue.enqueue_many(payloads[::2])
        self.queue.enqueue_many(payloads[1::2], priority=-5)
        workers = [self.worker("effect_slowly", "-c", 4) for _ in range(3)]
        self.wait_for(lambda: Job.objects.filter(state="done").exists(), "the first job")
        transitions.cancel(Job.objects.filter(queue="work", priority=-5))
        self.wait_for(lambda: not {"ready", "leased"} & self.states().keys(), "the end of all jobs")
        self.stop_all(workers)
        for worker in workers:
            self.assertNotIn("Traceback", worker.said)
            self.assertNotIn("eadlock", worker.said)
        self.assertLessEqual(self.states().keys(), {"done", "cancelled"})
        self.assertEqual(Job.objects.filter(priority=0, state="done").count(), self.jobs / 2)
        done = Job.objects.filter(state="done").count()
        self.assertGreaterEqual(Group.objects.count(), done)
        self.assertFalse(Attempt.objects.exists())


class StrictIsolationTests(ProcessTestCase):
    jobs = 300

    def test_workers_under_stricter_isolation(self):
        if connection.vendor != "postgresql":
            self.skipTest("PostgreSQL answers conflicts with an error of its own")
        # The numbers that psycopg has for them.
        for name, level in (("repeatable read", 3), ("serializable", 4)):
            with self.subTest(level=name):
                self.queue.purge()
                self.queue.enqueue_many({"effect": f"{name} {n}"} for n in range(self.jobs))
                database = {"OPTIONS": {"isolation_level": level}}
                workers = [self.worker("note", "-c", 2, database=database) for _ in range(4)]
                self.wait_for_states(done=self.jobs)
                self.stop_all(workers)
                for worker in workers:
                    self.assertNotIn("Traceback", worker.said)
                done = [line for line in self.marks("done") if name in line]
                self.assertEqual(len(done), self.jobs)
                self.assertFalse(Job.objects.filter(attempts__gt=1).exists())
