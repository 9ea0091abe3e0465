"""Free slots into leased jobs: how many, which, and what is never leased ahead."""

from unittest import mock

from django.test import TestCase, override_settings

from django_nobroker import Queue, tasks, transitions
from django_nobroker.models import Job
from tests.bench import Bench
from tests.rows import alter, insert
from tests.work import Quiet, fresh


class RoomTests(Quiet, TestCase):
    def fill(self, count, **columns):
        jobs = Queue().enqueue_many(range(count))
        for job in jobs if columns else ():
            alter(job, **columns)
        return jobs

    def test_as_many_as_there_are_slots_at_first(self):
        self.fill(10)
        for concurrency in (1, 4):
            with self.subTest(concurrency=concurrency):
                bench = Bench(concurrency=concurrency)
                self.assertEqual(len(bench.claimer.claim()), concurrency)

    def test_none_while_all_slots_are_taken(self):
        self.fill(10)
        bench = Bench(concurrency=2)
        bench.claimer.claim()
        self.assertEqual(bench.claimer.claim(), [])
        self.assertEqual(Queue().stats().leased, 2)

    def test_more_ahead_as_quick_jobs_end(self):
        self.fill(300)
        bench = Bench()
        counts = []
        for _ in range(4):
            claimed = bench.claimer.claim()
            counts.append(len(claimed))
            bench.finish(*claimed)
        self.assertEqual(counts[0], 1)
        self.assertEqual(counts, sorted(counts))
        self.assertGreater(counts[-1], 50)

    def test_none_ahead_once_they_are_slow(self):
        self.fill(700)
        bench = Bench()
        for _ in range(3):
            claimed = bench.claimer.claim()
            bench.finish(*claimed)
        self.assertGreater(len(claimed), 1)
        bench.finish(*bench.claimer.claim(), seconds=1.0)
        self.assertEqual(len(bench.claimer.claim()), 1)

    def test_none_ahead_of_a_job_that_goes_on_and_on(self):
        self.fill(2500)
        bench = Bench(concurrency=2)
        for _ in range(3):
            claimed = bench.claimer.claim()
            bench.finish(*claimed)
        bench.finish(*bench.claimer.claim()[1:])
        bench.holdings._moved_at -= 3600
        self.assertEqual(len(bench.claimer.claim()), 1)

    def test_no_more_than_the_jobs_it_is_to_do(self):
        self.fill(10)
        bench = Bench(concurrency=4, max_jobs=6)
        first = bench.claimer.claim()
        bench.finish(*first)
        self.assertEqual((len(first), len(bench.claimer.claim())), (4, 2))
        self.assertEqual(bench.claimer.claim(), [])

    def test_those_given_back_are_not_among_them(self):
        self.fill(10)
        bench = Bench(concurrency=4, max_jobs=6)
        first = bench.claimer.claim()
        bench.finish(*first[:1])
        bench.finish(*first[1:], seconds=None)
        bench.claimer.lanes.expire()
        self.assertEqual(len(bench.claimer.claim()), 5)

    def test_from_several_lanes_until_the_room_is_filled(self):
        for priority in (3, 2, 1):
            Queue().enqueue_many([priority] * 2, priority=priority)
        claimed = Bench(concurrency=5).claimer.claim()
        self.assertEqual([held.job.payload for held in claimed], [3, 3, 2, 2, 1])


class SuspectTests(Quiet, TestCase):
    """A job that lost a lease may be what takes workers down: it is leased alone."""

    def suspects(self, count):
        jobs = Queue().enqueue_many(["suspect"] * count)
        for job in jobs:
            alter(job, lease_losses=1, available_at="2020-01-01 00:00:00+00:00")
        return jobs

    def quick(self, **options):
        """Return a bench whose handlers are known to be quick: it would lease far ahead."""
        bench = Bench(**options)
        bench.pace.ran(0.00001)
        bench.pace._limit = 500
        return bench

    def test_one_at_a_time(self):
        self.suspects(3)
        bench = self.quick()
        for _ in range(3):
            [held] = bench.claimer.claim()
            self.assertTrue(held.solo)
            self.assertEqual(bench.claimer.claim(), [])
            bench.finish(held)
        self.assertEqual(bench.claimer.claim(), [])

    def test_no_innocents_with_it_or_after_it(self):
        self.suspects(1)
        Queue().enqueue_many(range(50))
        bench = self.quick()
        [suspect] = bench.claimer.claim()
        self.assertTrue(suspect.solo)
        bench.holdings.finished(suspect)
        # It has returned and is not settled: a crash now would lose it a second time.
        self.assertEqual(bench.claimer.claim(), [])
        bench.finish(suspect)
        innocents = bench.claimer.claim()
        self.assertGreater(len(innocents), 1)
        self.assertFalse(any(held.solo for held in innocents))

    def test_not_while_innocents_are_unsettled(self):
        Queue().enqueue_many(range(2), priority=5)
        self.suspects(1)
        bench = self.quick()
        innocents = bench.claimer.claim()
        self.assertEqual([held.solo for held in innocents], [False, False])
        for held in innocents:
            bench.holdings.finished(held)
        self.assertEqual(bench.claimer.claim(), [])
        bench.finish(*innocents)
        self.assertEqual([held.solo for held in bench.claimer.claim()], [True])

    def test_beside_others_only_in_a_slot_that_is_free(self):
        self.suspects(1)
        Queue().enqueue_many(range(50))
        bench = self.quick(concurrency=3)
        claimed = bench.claimer.claim()
        self.assertTrue(claimed[-1].solo)
        claimed += bench.claimer.claim()
        self.assertLessEqual(len(claimed), 3)
        self.assertLessEqual(len(bench.claimer.claim()), 3 - len(claimed))

    def test_a_lease_that_expired_makes_a_suspect(self):
        [job] = Queue().enqueue_many([1])
        bench = self.quick()
        bench.claimer.claim()
        alter(job, lease_expires_at="2020-01-01 00:00:00+00:00")
        transitions.reap("default", lambda name: Queue().options, in_touch=3600)
        self.assertEqual(fresh(job).lease_losses, 1)


class WhatTests(Quiet, TestCase):
    @mock.patch.object(tasks, "SUPPORTED", False)
    def test_never_a_job_with_a_task_before_django_6(self):
        insert(task="shop.tasks.send")
        bench = Bench()
        self.assertEqual(bench.claimer.claim(), [])
        self.assertFalse(bench.claimer.has_due())
        self.assertEqual(Job.objects.get().attempts, 0)

    @mock.patch.object(tasks, "SUPPORTED", False)
    def test_a_good_job_behind_many_with_a_task_before_django_6(self):
        for _ in range(30):
            insert(task="shop.tasks.send")
        good = Queue().enqueue("good")
        [held] = Bench().claimer.claim()
        self.assertEqual(held.job.id, good.id)

    @mock.patch.object(tasks, "SUPPORTED", True)
    def test_a_job_with_a_task_needs_no_handler(self):
        insert(task="shop.tasks.send", queue="orphans")
        Queue("orphans").enqueue(1)
        bench = Bench(handler=None)
        self.assertTrue(bench.claimer.has_due())
        [held] = bench.claimer.claim()
        self.assertEqual(held.job.task, "shop.tasks.send")
        self.assertFalse(bench.claimer.has_due())

    def test_never_a_job_without_a_handler(self):
        job = Queue("orphans").enqueue(1)
        bench = Bench(handler=None)
        self.assertEqual(bench.claimer.claim(), [])
        self.assertFalse(bench.claimer.has_due())
        self.assertEqual(fresh(job).attempts, 0)

    def test_a_queue_without_a_handler_is_said_once(self):
        Queue("orphans").enqueue(1)
        bench = Bench(handler=None)
        with self.assertLogs("django_nobroker", "WARNING") as log:
            for _ in range(3):
                bench.claimer.claim()
                bench.claimer.handlers.look_up()
                bench.claimer.lanes.forgive()
        self.assertEqual(len(log.output), 1)
        self.assertEqual(log.records[0].queue, "orphans")

    @mock.patch.object(tasks, "SUPPORTED", True)
    def test_a_queue_of_tasks_needs_none(self):
        insert(task="shop.tasks.send", queue="tasks")
        bench = Bench(handler=None)
        with self.assertNoLogs("django_nobroker", "WARNING"):
            for _ in range(3):
                bench.claimer.claim()
                bench.claimer.handlers.look_up()
                bench.claimer.lanes.forgive()

    @override_settings(NOBROKER={"QUEUES": {"slow": {"VISIBILITY_TIMEOUT": 7200}}})
    def test_for_as_long_as_its_queue_says(self):
        Queue("slow").enqueue(1)
        [held] = Bench().claimer.claim()
        self.assertGreater((held.job.lease_expires_at - held.job.leased_at).total_seconds(), 7000)
        self.assertEqual(held.options.visibility_timeout, 7200)

    def test_what_is_leased_says_so_in_the_row(self):
        job = Queue().enqueue({"to": 1})
        [held] = Bench().claimer.claim()
        row = fresh(job)
        self.assertEqual(
            (row.state, row.attempts, row.fence, row.leased_by), ("leased", 1, 1, "bench")
        )
        for name in ("state", "attempts", "fence", "leased_by"):
            self.assertEqual(getattr(held.job, name), getattr(row, name), name)
        for name in ("leased_at", "lease_expires_at", "started_at"):
            between = getattr(held.job, name) - getattr(row, name)
            self.assertLess(abs(between.total_seconds()), 1, name)
