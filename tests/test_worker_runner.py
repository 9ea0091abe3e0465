"""Plain handlers on their threads."""

import queue
import threading

from django.test import SimpleTestCase

from django_nobroker.conf import QueueOptions
from django_nobroker.exceptions import SerializationError
from django_nobroker.models import Job
from django_nobroker.worker.handlers import Fault, Handler
from django_nobroker.worker.holdings import Held, Holdings
from django_nobroker.worker.runner import Runner
from tests.work import DEADLINE


class RunnerTests(SimpleTestCase):
    def setUp(self):
        self.ended = queue.SimpleQueue()
        self.crashes = []
        self.numbers = iter(range(1, 1000))
        self.holdings = Holdings(lambda: None)

    def runner(self, concurrency=1):
        runner = Runner(concurrency, self.holdings, self.ended.put, self.crashes.append)
        self.addCleanup(runner.stop, DEADLINE)
        return runner

    def held(self, handler, payload="{}", deadline=float("inf")):
        job = Job(id=next(self.numbers), queue="a", payload_text=payload)
        one = Held(job, Handler.of(handler), QueueOptions(), deadline=deadline, solo=False)
        self.holdings.add([one])
        return one

    def end(self):
        """Return what ended next."""
        return self.ended.get(timeout=DEADLINE)

    def test_in_the_order_handed_over(self):
        seen = []
        runner = self.runner()
        for payload in "123":
            runner.submit(self.held(lambda job: seen.append(job.payload), payload))
        for _ in range(3):
            _, error, seconds = self.end()
            self.assertIsNone(error)
            self.assertGreaterEqual(seconds, 0)
        self.assertEqual(seen, [1, 2, 3])
        self.assertEqual(self.holdings.unfinished, 0)

    def test_what_a_handler_raises_is_handed_on_and_the_thread_lives(self):
        threads = []
        runner = self.runner()
        for error in (SystemExit(3), KeyboardInterrupt(), GeneratorExit(), ValueError()):

            def handler(job, error=error):
                threads.append(threading.get_ident())
                raise error

            runner.submit(self.held(handler))
            _, found, _ = self.end()
            self.assertIs(found, error)
        self.assertEqual(len(set(threads)), 1)
        self.assertEqual(self.crashes, [])

    def test_no_more_threads_than_it_may_and_none_before_they_are_needed(self):
        before = threading.active_count()
        runner = self.runner(3)
        self.assertEqual(threading.active_count(), before)
        together = threading.Barrier(3)
        for _ in range(9):
            runner.submit(self.held(lambda job: together.wait(DEADLINE)))
        for _ in range(9):
            self.assertIsNone(self.end()[1])
        self.assertLessEqual(threading.active_count(), before + 3)

    def test_what_has_not_started_can_be_taken_back(self):
        runner = self.runner()
        started, free = threading.Event(), threading.Event()
        self.addCleanup(free.set)

        def handler(job):
            started.set()
            free.wait(DEADLINE)

        jobs = [self.held(handler) for _ in range(3)]
        runner.submit(jobs[0])
        self.assertTrue(started.wait(DEADLINE))
        for one in jobs[1:]:
            runner.submit(one)
        self.assertEqual(runner.withdraw(), jobs[1:])
        self.assertEqual(runner.withdraw(), [])

    def test_what_lapsed_unstarted_is_not_started(self):
        ran = []
        runner = self.runner()
        one = self.held(ran.append, deadline=0.0)
        runner.submit(one)
        self.assertEqual(self.end(), (one, None, None))
        self.assertEqual(ran, [])

    def test_a_payload_that_cannot_be_read(self):
        ran = []
        runner = self.runner()
        one = self.held(ran.append, payload="{broken")
        runner.submit(one)
        _, error, _ = self.end()
        self.assertIsInstance(error, SerializationError)
        self.assertIs(one.fault, Fault.HOPELESS)
        self.assertEqual(ran, [])

    def test_stopping(self):
        runner = self.runner(2)
        runner.submit(self.held(print_nothing))
        self.end()
        self.assertTrue(runner.stop(DEADLINE))

    def test_stopping_does_not_wait_for_what_does_not_end(self):
        runner = self.runner()
        started, free = threading.Event(), threading.Event()
        self.addCleanup(free.set)

        def handler(job):
            started.set()
            free.wait(DEADLINE)

        runner.submit(self.held(handler))
        self.assertTrue(started.wait(DEADLINE))
        self.assertFalse(runner.stop(0))


def print_nothing(job):
    pass
