"""Handlers that end as none should: each is one failed attempt, and hurts nobody beside it."""

import asyncio
import importlib
import sys
import tempfile
from pathlib import Path

from django.test import TestCase, TransactionTestCase

from django_nobroker import Queue, Retry, Snooze
from django_nobroker.failures import MAX_MESSAGE, MAX_TRACEBACK
from tests.work import Quiet, fresh, states, work


class Own(BaseException):
    """What no `except Exception` catches."""


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


class Silent(Exception):
    """Says that it is something it is not."""

    def __str__(self):
        return None


class SystemExitInStr(Exception):
    def __str__(self):
        sys.exit(7)


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first)
        self.lock = second


class BareRetry(Retry):
    """Leaves out what its base class does when it is made."""

    def __init__(self, text): ...


class MuteRetry(BareRetry):
    @property
    def delay(self):
        raise RuntimeError("no delay is told")


class MuteSnooze(Snooze):
    def __init__(self): ...

    @property
    def seconds(self):
        raise RuntimeError("no seconds are told")


class Masked(Exception):
    @property
    def __class__(self):
        raise RuntimeError("no class is told")


class Leaving(BareRetry):
    @property
    def delay(self):
        sys.exit("no delay is told")


class Backwards(Snooze):
    """Would be due again at once, for ever."""

    seconds = -5

    def __init__(self): ...


def leave(code):
    sys.exit(code)


def give_up(error):
    raise error


def recurse(depth):
    if depth:
        recurse(depth - 1)
    raise ValueError("at the bottom")


def import_broken(_):
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "nobroker_broken.py").write_text("def broken(:\n")
        sys.path.insert(0, directory)
        try:
            importlib.import_module("nobroker_broken")
        finally:
            sys.path.remove(directory)


def chain(_):
    try:
        try:
            raise OSError("first")
        except OSError as error:
            raise ValueError("second") from error
    except ValueError:
        raise KeyError("third")  # noqa: B904


# Name: what the handler does, and with what; the class and a piece of the text to be recorded.
ENDS = {
    "exit 0": (leave, 0, "SystemExit", "SystemExit: 0"),
    "exit 3": (leave, 3, "SystemExit", "SystemExit: 3"),
    "exit with words": (leave, "so long", "SystemExit", "so long"),
    "Ctrl-C": (give_up, KeyboardInterrupt(), "KeyboardInterrupt", "KeyboardInterrupt"),
    "generator": (give_up, GeneratorExit("g"), "GeneratorExit", "g"),
    "cancelled": (give_up, asyncio.CancelledError("c"), "CancelledError", "c"),
    "own": (give_up, Own("mine"), "Own", "mine"),
    "stop iteration": (give_up, StopAsyncIteration("s"), "StopAsyncIteration", "s"),
    "two arguments": (give_up, TwoArguments("one", object()), "TwoArguments", "one"),
    "group": (give_up, ExceptionGroup("all", [OSError("in it")]), "ExceptionGroup", "all"),
    "own group": (give_up, BaseExceptionGroup("all", [Own("in")]), "BaseExceptionGroup", "all"),
    "no text": (give_up, Unspeakable(), "Unspeakable", "Unspeakable"),
    "None for a text": (give_up, Silent(), "Silent", "Silent"),
    "exit from its text": (give_up, SystemExitInStr(), "SystemExitInStr", "SystemExitInStr"),
    "bare retry": (give_up, BareRetry("later"), "BareRetry", "later"),
    "mute retry": (give_up, MuteRetry("later"), "RuntimeError", "no delay is told"),
    "mute snooze": (give_up, MuteSnooze(), "RuntimeError", "no seconds are told"),
    "masked": (give_up, Masked(), "RuntimeError", "no class is told"),
    "leaving": (give_up, Leaving("x"), "SystemExit", "no delay is told"),
    "backwards": (give_up, Backwards(), "QueueError", "Snooze"),
    "NUL": (give_up, ValueError("a\x00b"), "ValueError", "a\\x00b"),
    "lone surrogate": (give_up, ValueError("a\ud800b"), "ValueError", "a\\ud800b"),
    "emoji": (give_up, ValueError("\U0001f600"), "ValueError", "\U0001f600"),
    "not text": (give_up, ValueError(b"\xff", {1}), "ValueError", "xff"),
    "recursion": (recurse, 100_000, "RecursionError", "RecursionError"),
    "syntax": (import_broken, None, "SyntaxError", "SyntaxError"),
    "chain": (chain, None, "KeyError", "third"),
}


def run(job):
    """End as the payload names it, or well."""
    if job.payload in ENDS:
        act, argument, *_ = ENDS[job.payload]
        act(argument)


async def run_async(job):
    run(job)


class Endings(Quiet):
    """The cases, for one kind of handler and one way of working."""

    handler = staticmethod(run)

    def test_each_is_a_failed_attempt_and_its_neighbours_run(self):
        bad, good = {}, []
        for name in ENDS:
            bad[name] = Queue(max_attempts=1).enqueue(name)
            good.append(Queue().enqueue("good"))
        stats = work(self.handler, concurrency=3)
        self.assertEqual(set(states(*good)), {"done"})
        self.assertEqual((stats.failed, stats.succeeded), (len(ENDS), len(ENDS)))
        for name, (_, _, error_class, text) in ENDS.items():
            job = fresh(bad[name])
            with self.subTest(name=name):
                self.assertEqual((job.state, job.attempts), ("dead", 1))
                self.assertEqual(job.error_class.rpartition(".")[2], error_class)
                self.assertIn(text, job.last_error)
                attempt = job.failed_attempts.get()
                self.assertEqual(attempt.message, job.last_error)
                self.assertIn("Traceback", attempt.traceback)

    def test_a_text_of_fifty_megabytes_is_cut(self):
        job = Queue(max_attempts=1).enqueue("huge")

        def huge(job):
            raise ValueError("x" * 50_000_000)

        work(huge)
        job = fresh(job)
        self.assertEqual(job.state, "dead")
        self.assertLessEqual(len(job.last_error), MAX_MESSAGE)
        self.assertIn("characters cut", job.last_error)
        self.assertLessEqual(len(job.failed_attempts.get().traceback), MAX_TRACEBACK)

    def test_a_deep_traceback_is_cut(self):
        job = Queue(max_attempts=1).enqueue(1)
        limit = sys.getrecursionlimit()

        def deep(job):
            sys.setrecursionlimit(20_000)
            recurse(5_000)

        try:
            work(deep)
        finally:
            sys.setrecursionlimit(limit)
        job = fresh(job)
        self.assertEqual(job.state, "dead")
        attempt = job.failed_attempts.get()
        self.assertLessEqual(len(attempt.traceback), MAX_TRACEBACK)
        self.assertIn("at the bottom", attempt.traceback)
        self.assertIn("recurse(depth - 1)", attempt.traceback)

    def test_causes_and_members_are_in_the_record(self):
        chain, group = (Queue(max_attempts=1).enqueue(name) for name in ("chain", "group"))
        work(self.handler)
        told = fresh(chain).failed_attempts.get().traceback
        for words in ("first", "second", "third"):
            self.assertIn(words, told)
        self.assertIn("in it", fresh(group).failed_attempts.get().traceback)

    def test_it_is_tried_again(self):
        job = Queue(max_attempts=2).enqueue("exit 0")
        work(self.handler)
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 1))


class InlineEndingTests(Endings, TestCase):
    pass


class InlineAsyncEndingTests(Endings, TestCase):
    handler = staticmethod(run_async)


class ThreadedEndingTests(Endings, TransactionTestCase):
    pass


class ThreadedAsyncEndingTests(Endings, TransactionTestCase):
    handler = staticmethod(run_async)
