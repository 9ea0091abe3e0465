"""Async handlers on their loop: side by side, cancelled, and never the end of it."""

import asyncio
import queue
import threading

from asgiref.sync import sync_to_async
from django.test import SimpleTestCase

from django_nobroker.conf import QueueOptions
from django_nobroker.models import Job
from django_nobroker.worker.handlers import Handler
from django_nobroker.worker.holdings import Held, Holdings
from django_nobroker.worker.loop import LoopRunner
from tests.work import DEADLINE, eventually

NEVER = float("inf")


class LoopTests(SimpleTestCase):
    def setUp(self):
        self.ended = queue.SimpleQueue()
        self.crashes = []
        self.holdings = Holdings(lambda: None)
        self.started = queue.SimpleQueue()

    def loop(self, concurrency=2):
        loop = LoopRunner(concurrency, self.holdings, self.ended.put, self.crashes.append)
        self.addCleanup(loop.stop, 0)
        return loop

    def held(self, handler, payload="{}", deadline=NEVER):
        job = Job(id=id(handler) + len(self.holdings), queue="a", payload_text=payload)
        one = Held(job, Handler.of(handler), QueueOptions(), deadline=deadline, solo=False)
        self.holdings.add([one])
        return one

    def end(self):
        """Return what ended next."""
        return self.ended.get(timeout=DEADLINE)

    async def hang(self, job):
        self.started.put(job)
        await asyncio.sleep(DEADLINE)

    def test_what_a_handler_raises_is_handed_on_and_the_loop_lives(self):
        loop = self.loop()
        errors = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
        for error in [*errors, ValueError(), None]:

            async def handler(job, error=error):
                if error:
                    raise error

            one = self.held(handler)
            loop.submit(one)
            held, found, seconds = self.end()
            self.assertIs(held, one)
            self.assertIs(type(found), type(error))
            self.assertGreaterEqual(seconds, 0)
        self.assertEqual(self.holdings.unfinished, 0)
        self.assertEqual(self.crashes, [])

    def test_no_more_at_a_time_than_it_may(self):
        running, most = 0, 0

        async def handler(job):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

        loop = self.loop(3)
        for _ in range(12):
            loop.submit(self.held(handler))
        for _ in range(12):
            self.end()
        self.assertEqual(most, 3)

    def test_what_has_not_started_can_be_taken_back(self):
        loop = self.loop(1)
        jobs = [self.held(self.hang) for _ in range(3)]
        loop.submit(jobs[0])
        self.started.get(timeout=DEADLINE)
        for one in jobs[1:]:
            loop.submit(one)
        self.assertEqual(loop.withdraw(), jobs[1:])
        self.assertEqual(loop.withdraw(), [])

    def test_losing_the_lease_cancels_the_handler(self):
        loop = self.loop()
        one = self.held(self.hang)
        loop.submit(one)
        self.started.get(timeout=DEADLINE)
        one.lose()
        held, error, _ = self.end()
        self.assertIs(held, one)
        self.assertIsInstance(error, asyncio.CancelledError)
        self.assertIsNone(one.cancel)

    def test_what_lapsed_unstarted_is_not_started(self):
        ran = []

        async def handler(job):
            ran.append(job)

        loop = self.loop()
        one = self.held(handler, deadline=0.0)
        loop.submit(one)
        self.assertEqual(self.end(), (one, None, None))
        self.assertEqual(ran, [])

    def test_stopping_cancels_what_goes_on_and_marks_it_as_interrupted(self):
        loop = self.loop()
        one = self.held(self.hang)
        loop.submit(one)
        self.started.get(timeout=DEADLINE)
        self.assertTrue(loop.stop(0))
        held, error, _ = self.end()
        self.assertTrue(held.interrupted)
        self.assertIsInstance(error, asyncio.CancelledError)

    def test_stopping_leaves_behind_what_does_not_let_itself_be_cancelled(self):
        free = threading.Event()

        async def stubborn(job):
            self.started.put(job)
            while not free.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue

        loop = self.loop()
        loop.submit(self.held(stubborn))
        self.started.get(timeout=DEADLINE)
        self.assertFalse(loop.stop(0))
        self.assertTrue(self.ended.empty())
        # Not left to the test's process: the loop is run once more, to its end.
        free.set()
        loop._loop.run_until_complete(asyncio.gather(*loop._tasks))
        loop._loop.close()

    def test_stopping_what_never_started(self):
        self.assertTrue(self.loop().stop(0))

    def test_each_job_has_a_thread_of_its_own_for_sync_code(self):
        threads = []

        async def handler(job):
            threads.append(await sync_to_async(threading.get_ident)())
            threads.append(await sync_to_async(threading.get_ident)())

        loop = self.loop(1)
        loop.submit(self.held(handler))
        self.end()
        self.assertEqual(len(set(threads)), 1)
        self.assertNotIn(loop._thread.ident, threads)
        eventually(lambda: self.holdings.unfinished == 0)
