"""The parts together: what happens when one of them dies, and what is left when all have ended."""

import asyncio
import contextlib
import logging
import threading
from unittest import mock

from django.contrib.auth.models import Group
from django.db import OperationalError
from django.test import TransactionTestCase

from django_nobroker import Queue, transitions
from django_nobroker.clock import Ahead
from django_nobroker.models import Job, WorkerProcess
from django_nobroker.worker.claimer import Claimer
from django_nobroker.worker.keeper import Keeper
from django_nobroker.worker.settler import Settler
from tests.work import DEADLINE, Background, Quiet, eventually, fresh, states, work, worker


class Death(BaseException):
    """What nothing in a worker expects."""


@contextlib.contextmanager
def dying(part, method, *, error, after=0):
    """Let a method of a part raise at its call number `after` and at all later ones."""
    calls, real = [], getattr(part, method)

    def fail(self, *args, **kwargs):
        calls.append(1)
        if len(calls) > after:
            raise error
        return real(self, *args, **kwargs)

    with mock.patch.object(part, method, fail):
        yield calls


class CrewCase(Quiet, TransactionTestCase):
    def setUp(self):
        super().setUp()
        self.others = set(threading.enumerate())

    def none_left(self):
        """Return whether every thread that was started in this test has ended."""
        return set(threading.enumerate()) <= self.others


class DeathTests(CrewCase):
    """No worker lives on in part: it would hold leases for work that nobody does."""

    def setUp(self):
        super().setUp()
        self.started, self.free = threading.Event(), threading.Event()
        self.addCleanup(self.free.set)

    def hang(self, job):
        self.started.set()
        self.free.wait(DEADLINE)

    def ends_with(self, error, handler):
        """Run a worker on a job that is under way when a part dies; return the job."""
        job = Queue().enqueue(1)
        with Background(worker(handler, burst=False)) as up:
            up.wait()
        self.assertIs(up.error, error)
        self.free.set()
        eventually(self.none_left)
        return fresh(job)

    def test_of_the_claimer(self):
        for error in (Death(), KeyboardInterrupt(), SystemExit(3), ValueError()):
            with self.subTest(error=repr(error)), dying(Claimer, "claim", error=error, after=1):
                self.free.clear()
                job = self.ends_with(error, self.hang)
                # Given back, or left to a lease that nobody renews.
                self.assertIn(job.state, ("ready", "leased"))
                Job.objects.all().delete()

    def test_of_the_keeper(self):
        error = Death()
        with dying(Keeper, "beat", error=error):
            self.ends_with(error, self.hang)

    def test_of_the_settler(self):
        error = Death()
        with dying(Settler, "_settle", error=error):
            job = self.ends_with(error, lambda job: None)
        self.assertEqual(job.state, "leased")

    def test_of_one_async_loop(self):
        async def nothing(job):
            pass

        job = Queue().enqueue(1)
        with (
            mock.patch.object(asyncio, "new_event_loop", side_effect=Death()),
            Background(worker(nothing, burst=False)) as up,
        ):
            up.wait()
        self.assertIsInstance(up.error, Death)
        self.assertIn(states(job), (["ready"], ["leased"]))
        eventually(self.none_left)

    def test_an_error_of_the_database_is_nobodys_death(self):
        job = Queue().enqueue(1)
        calls, real = [], Claimer.claim

        def claim(self):
            calls.append(1)
            if len(calls) < 4:
                raise OperationalError("away")
            return real(self)

        with mock.patch.object(Claimer, "claim", claim):
            work(lambda job: None)
        self.assertEqual(states(job), ["done"])

    def test_leases_are_renewed_no_more(self):
        with dying(Claimer, "claim", error=Death(), after=1):
            job = Queue().enqueue(1)
            with Background(worker(self.hang, burst=False)) as up:
                up.wait()
        Job.objects.filter(pk=job.pk, state="leased").update(lease_expires_at=Ahead(-60))
        transitions.reap("default", lambda name: Queue().options, in_touch=3600)
        self.assertEqual(states(job), ["ready"])
        self.free.set()


class EndTests(CrewCase):
    def test_nothing_is_left_running(self):
        Queue().enqueue_many(range(20))
        work(lambda job: Group.objects.create(name=job.pk), concurrency=4)
        eventually(self.none_left)
        self.assertFalse(WorkerProcess.objects.exists())

    def test_a_late_outcome_of_what_was_given_back_changes_nothing(self):
        started, free, through = threading.Event(), threading.Event(), threading.Event()

        def handler(job):
            started.set()
            free.wait(DEADLINE)
            through.set()

        job = Queue().enqueue(1)
        with Background(worker(handler, burst=False, shutdown_timeout=0)):
            self.assertTrue(started.wait(DEADLINE))
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 0))
        free.set()
        self.assertTrue(through.wait(DEADLINE))
        eventually(self.none_left)
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 0))

    def test_an_async_handler_is_cancelled_and_its_attempt_given_back(self):
        started = threading.Event()

        async def handler(job):
            started.set()
            await asyncio.sleep(DEADLINE)

        job = Queue().enqueue(1)
        with Background(worker(handler, burst=False, shutdown_timeout=0)) as up:
            self.assertTrue(started.wait(DEADLINE))
        self.assertIsNone(up.error)
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 0))
        self.assertEqual(fresh(job).failed_attempts.count(), 0)

    def test_a_job_that_is_cancelled_while_it_runs(self):
        started, cancelled = threading.Event(), threading.Event()

        async def handler(job):
            started.set()
            try:
                await asyncio.sleep(DEADLINE)
            finally:
                cancelled.set()

        job = Queue().enqueue(1)
        with (
            self.settings(NOBROKER={"VISIBILITY_TIMEOUT": 0.5}),
            Background(worker(handler, burst=False)) as up,
        ):
            self.assertTrue(started.wait(DEADLINE))
            self.assertTrue(Queue().cancel(id=job.id))
            self.assertTrue(cancelled.wait(DEADLINE))
        self.assertEqual(states(job), ["cancelled"])
        self.assertEqual(up.stats.lost_leases, 1)

    def test_a_job_that_deletes_its_own_row(self):
        Queue().enqueue(1)
        stats = work(lambda job: Job.objects.filter(pk=job.pk).delete())
        self.assertEqual((stats.succeeded, stats.lost_leases), (0, 1))

    def test_a_plain_handler_can_see_that_its_lease_is_lost(self):
        seen = []

        def handler(job):
            Queue().cancel(id=job.id)
            seen.append(eventually(lambda: job.lease_lost))

        Queue().enqueue(1)
        with self.settings(NOBROKER={"VISIBILITY_TIMEOUT": 0.5}):
            stats = work(handler)
        self.assertEqual((seen, stats.lost_leases), ([True], 1))

    def test_a_lease_is_renewed_while_its_handler_runs(self):
        deadlines = []

        def handler(job):
            first = fresh(job).lease_expires_at
            deadlines.append(eventually(lambda: fresh(job).lease_expires_at > first))

        job = Queue().enqueue(1)
        with self.settings(NOBROKER={"VISIBILITY_TIMEOUT": 0.5}):
            stats = work(handler)
        self.assertEqual((deadlines, stats.succeeded), ([True], 1))
        self.assertEqual(fresh(job).attempts, 1)

    def test_its_log_is_quiet_when_all_is_well(self):
        Queue().enqueue_many(range(5))
        logging.getLogger("django_nobroker").setLevel(logging.DEBUG)
        with self.assertNoLogs("django_nobroker", "WARNING"):
            work(lambda job: None)
