"""A worker as a whole, on threads and connections of its own."""

import asyncio
import threading
from unittest import mock

from django.db import connections, transaction
from django.test import TransactionTestCase, override_settings

from django_nobroker import Queue, Retry, Worker
from django_nobroker.exceptions import LeaseInTransaction
from django_nobroker.models import Job, WorkerProcess
from django_nobroker.worker.claimer import Claimer
from django_nobroker.worker.pace import Pace
from tests.rows import age
from tests.work import DEADLINE, Background, Quiet, eventually, fresh, run, states, work, worker


def nothing(job):
    pass


async def nothing_async(job):
    pass


class RunTests(Quiet, TransactionTestCase):
    def test_an_empty_queue(self):
        self.assertEqual(tuple(work(nothing)), (0, 0, 0, 0, 0))

    def test_many_jobs_each_once(self):
        for concurrency in (1, 4):
            with self.subTest(concurrency=concurrency):
                jobs = Queue().enqueue_many(range(200))
                seen = []
                stats = work(
                    lambda job, seen=seen: seen.append(job.payload), concurrency=concurrency
                )
                self.assertEqual(sorted(seen), list(range(200)))
                self.assertEqual(tuple(stats), (200, 200, 0, 0, 0))
                self.assertEqual(set(states(*jobs)), {"done"})

    def test_a_second_run_is_somebody_new(self):
        one = worker(nothing)
        names = []
        for _ in range(2):
            Queue().enqueue(1)
            run(one)
            names.append(one.identity)
        self.assertEqual(len(set(names)), 2)

    def test_the_job_says_who_holds_it(self):
        Queue().enqueue(1)
        one = worker(lambda job: seen.append(job.leased_by))
        seen = []
        run(one)
        self.assertEqual(seen, [one.identity])

    def test_async_jobs_run_side_by_side(self):
        Queue().enqueue_many(range(8))
        together = asyncio.Barrier(8)

        async def meet(job):
            await asyncio.wait_for(together.wait(), DEADLINE)

        self.assertEqual(work(meet, concurrency=8).succeeded, 8)

    def test_plain_jobs_run_side_by_side(self):
        Queue().enqueue_many(range(4))
        together = threading.Barrier(4)
        self.assertEqual(work(lambda job: together.wait(DEADLINE), concurrency=4).succeeded, 4)

    def test_one_that_does_not_end_holds_up_nobody(self):
        free, done = threading.Event(), []

        def handler(job):
            if job.payload == "slow":
                free.wait(DEADLINE)
            else:
                done.append(job.payload)
            if len(done) == 100:
                free.set()

        slow = Queue().enqueue("slow")
        Queue().enqueue_many(range(100))
        stats = work(handler, concurrency=4)
        self.assertTrue(free.is_set())
        self.assertEqual((stats.succeeded, len(done)), (101, 100))
        self.assertEqual(states(slow), ["done"])

    def test_what_waits_behind_a_slow_job_is_given_back_once(self):
        turns = []

        def handler(job):
            if job.payload == "slow":
                # Until the others were given back, and for many looks at the queue after that.
                eventually(lambda: Queue().stats().ready == 30)
                before = len(turns)
                eventually(lambda: len(turns) > before + 100)

        def claim(claimer):
            turns.append(1)
            return real(claimer)

        real = Claimer.claim
        Queue().enqueue_many(["slow", *range(30)])
        with (
            mock.patch.object(Claimer, "claim", claim),
            mock.patch.object(Pace, "prefetch", lambda pace: 30),
        ):
            stats = work(handler)
        self.assertEqual(stats.succeeded, 31)
        # Each at most twice, and some to spare for a machine that stalls.
        self.assertLess(stats.leased, 3 * 31)

    @override_settings(
        NOBROKER={
            "QUEUES": {
                "plain": {"HANDLER": "tests.test_worker.nothing"},
                "async": {"HANDLER": "tests.test_worker.nothing_async"},
            }
        }
    )
    def test_each_queue_by_its_own_handler(self):
        for name in ("plain", "async", "none"):
            Queue(name).enqueue_many(range(5))
        stats = work(None, None, concurrency=2)
        self.assertEqual((stats.leased, stats.succeeded), (10, 10))
        self.assertEqual(Queue("none").stats().ready, 5)

    def test_refused_inside_a_transaction(self):
        with transaction.atomic(), self.assertRaises(LeaseInTransaction):
            work(nothing)

    def test_the_calling_thread_keeps_no_connection(self):
        kept = []

        def call():
            Queue().enqueue(1)
            work(nothing)
            kept.append(connections["default"].connection)
            connections.close_all()

        thread = threading.Thread(target=call)
        thread.start()
        thread.join(DEADLINE)
        self.assertEqual(kept, [None])

    def test_workers_are_shown_while_they_are_up(self):
        with Background(worker(nothing, ["b", "a"], burst=False, name="blue")) as up:
            row = eventually(WorkerProcess.objects.first)
            self.assertEqual(row.identity, up.worker.identity)
            self.assertEqual((row.queues, row.concurrency, row.name), ("b, a", 1, "blue"))
        self.assertFalse(WorkerProcess.objects.exists())


class EndTests(Quiet, TransactionTestCase):
    def test_after_so_many_jobs(self):
        jobs = Queue().enqueue_many(range(40))
        for concurrency, most in ((1, 1), (1, 7), (4, 3), (4, 11)):
            with self.subTest(concurrency=concurrency, most=most):
                stats = work(nothing, concurrency=concurrency, max_jobs=most, burst=False)
                self.assertEqual((stats.leased, stats.succeeded), (most, most))
        self.assertEqual(Job.objects.filter(attempts=0, state="ready").count(), len(jobs) - 22)

    def test_when_idle_but_not_before_a_retry_has_its_end(self):
        def once(job):
            if job.attempts == 1:
                raise Retry(delay=1)

        job = Queue().enqueue(1)
        stats = run(Worker("default", once, idle_timeout=0.05, handle_signals=False))
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("done", 2))
        self.assertEqual((stats.leased, stats.failed, stats.succeeded), (2, 1, 1))

    def test_when_idle_though_a_job_is_delayed(self):
        job = Queue().enqueue(1, delay=3600)
        run(Worker("default", nothing, idle_timeout=0.05, handle_signals=False))
        self.assertEqual(states(job), ["ready"])

    def test_a_burst_does_not_wait_for_a_retry(self):
        def fail(job):
            raise Retry(delay=3600)

        job = Queue().enqueue(1)
        work(fail)
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 1))

    def test_after_so_long(self):
        job = Queue().enqueue(1)
        run(worker(nothing, burst=False, max_time=0.2))
        self.assertEqual(states(job), ["done"])

    def test_over_its_memory(self):
        with self.assertLogs("django_nobroker", "INFO") as log:
            run(worker(nothing, burst=False, max_memory=1))
        self.assertIn("1 MiB", "\n".join(log.output))

    def test_stopped_from_another_thread_it_finishes_what_runs(self):
        started, go = threading.Event(), threading.Event()

        def handler(job):
            started.set()
            go.wait(DEADLINE)

        first, second = Queue().enqueue_many([1, 2])
        with Background(worker(handler, burst=False)) as up:
            self.assertTrue(started.wait(DEADLINE))
            up.worker.stop()
            go.set()
        self.assertIsNone(up.error)
        self.assertEqual(states(first, second), ["done", "ready"])
        self.assertEqual(fresh(second).attempts, 0)

    def test_stopped_before_it_starts(self):
        job = Queue().enqueue(1)
        one = worker(nothing, burst=False)
        one.stop()
        self.assertEqual(run(one).leased, 0)
        self.assertEqual(states(job), ["ready"])
        self.assertEqual(run(worker(nothing)).leased, 1)

    def test_what_does_not_end_in_time_is_given_back(self):
        started, go = threading.Event(), threading.Event()

        def handler(job):
            started.set()
            go.wait(DEADLINE)

        job = Queue().enqueue(1)
        with Background(worker(handler, burst=False, shutdown_timeout=0)) as up:
            self.assertTrue(started.wait(DEADLINE))
        self.assertIsNone(up.error)
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 0))
        go.set()

    def test_what_has_been_kept_long_enough_is_pruned(self):
        old, new = Queue().enqueue_many([1, 2])
        work(nothing)
        age(old)
        work(nothing)
        self.assertEqual(states(old, new), [None, "done"])
