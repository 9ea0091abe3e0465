"""Waiting that ends early when it is called for, also from a signal handler."""

import signal
import threading
import time

from django.test import SimpleTestCase

from django_nobroker.worker.waker import Waker
from tests.work import DEADLINE


class WakerTests(SimpleTestCase):
    def setUp(self):
        self.waker = Waker()

    def assert_woken(self):
        began = time.monotonic()
        self.waker.wait(DEADLINE)
        self.assertLess(time.monotonic() - began, DEADLINE / 2)

    def test_returns_by_itself(self):
        self.waker.wait(0.001)
        self.waker.wait(-1)

    def test_a_call_before_the_wait_is_not_missed(self):
        self.waker.wake()
        self.assert_woken()

    def test_many_calls_are_one(self):
        for _ in range(100):
            self.waker.wake()
        self.assert_woken()
        self.assertEqual(self.waker._calls.qsize(), 0)
        self.waker.wake()
        self.assert_woken()

    def test_a_call_from_another_thread(self):
        timer = threading.Timer(0.05, self.waker.wake)
        timer.start()
        self.assert_woken()
        timer.join()

    def test_a_call_from_a_signal_handler(self):
        before = signal.signal(signal.SIGALRM, lambda *args: self.waker.wake())
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        self.assert_woken()
