"""From how a handler ended to what becomes of its job."""

import asyncio
from dataclasses import replace

from django.test import SimpleTestCase

from django_nobroker import BackoffPolicy, Reject, Retry, Snooze, policy
from django_nobroker.conf import QueueOptions
from django_nobroker.models import Job
from django_nobroker.transitions import moves
from django_nobroker.worker.handlers import Handler
from django_nobroker.worker.holdings import Held
from django_nobroker.worker.verdicts import verdict

OPTIONS = QueueOptions(backoff=BackoffPolicy(base=7, factor=1, jitter=0))


class Plain(BaseException):
    """One that no `except Exception` catches."""


class BareRetry(Retry):
    """Leaves out what its base class does when it is made."""

    def __init__(self): ...


class BareSnooze(Snooze):
    def __init__(self): ...


def held(attempts=1, max_attempts=5, options=OPTIONS, **chosen):
    def handler(job): ...

    job = Job(id=1, queue="a", payload_text="{}", attempts=attempts, max_attempts=max_attempts)
    handler = Handler.of(policy(**chosen)(handler))
    return Held(job, handler, options, deadline=float("inf"), solo=False)


class VerdictTests(SimpleTestCase):
    def assert_move(self, outcome, move, **values):
        self.assertIs(outcome.move, move)
        for name, value in values.items():
            self.assertEqual(outcome.row[name], value)

    def test_returning_is_success(self):
        self.assert_move(verdict(held(), None), moves.ACK)
        self.assertFalse(verdict(held(), None).forget)

    def test_success_may_be_forgotten_at_once(self):
        self.assertTrue(verdict(held(options=replace(OPTIONS, keep_done=0.0)), None).forget)
        self.assertFalse(verdict(held(options=replace(OPTIONS, keep_done=None)), None).forget)

    def test_raising_is_a_failure(self):
        outcome = verdict(held(), ValueError("no"))
        self.assert_move(outcome, moves.RETRY, delay=7.0, last_error="ValueError: no")
        self.assertEqual(outcome.failure.error_class, "builtins.ValueError")

    def test_the_last_attempt_is_dead(self):
        self.assert_move(verdict(held(attempts=5), ValueError("no")), moves.BURY)
        self.assert_move(verdict(held(max_attempts=1), ValueError("no")), moves.BURY)

    def test_what_is_no_exception_is_a_failure_all_the_same(self):
        for error in (
            SystemExit(3),
            KeyboardInterrupt(),
            GeneratorExit(),
            Plain(),
            asyncio.CancelledError(),
        ):
            with self.subTest(error=repr(error)):
                self.assert_move(verdict(held(), error), moves.RETRY)

    def test_cancelled_by_the_end_of_the_worker(self):
        one = held()
        one.interrupted = True
        self.assert_move(verdict(one, asyncio.CancelledError()), moves.RELEASE)
        self.assert_move(verdict(one, ValueError()), moves.RETRY)

    def test_reject_is_dead_at_once(self):
        outcome = verdict(held(), Reject("no such user"))
        self.assert_move(outcome, moves.BURY, last_error="Reject: no such user")

    def test_snooze_is_no_failure(self):
        outcome = verdict(held(attempts=5), Snooze(30))
        self.assert_move(outcome, moves.SNOOZE, delay=30.0)
        self.assertIsNone(outcome.failure)

    def test_retry_says_when(self):
        self.assert_move(verdict(held(), Retry(delay=99)), moves.RETRY, delay=99.0)
        self.assert_move(verdict(held(), Retry(delay=-1)), moves.RETRY, delay=0.0)
        self.assert_move(verdict(held(attempts=5), Retry(delay=99)), moves.BURY)

    def test_one_that_was_made_without_its_base_goes_by_the_defaults(self):
        self.assert_move(verdict(held(), BareRetry()), moves.RETRY, delay=0.0)
        self.assert_move(verdict(held(), BareSnooze()), moves.SNOOZE, delay=1.0)


class PolicyVerdictTests(SimpleTestCase):
    def move(self, error, **chosen):
        return verdict(held(**chosen), error).move

    def test_outside_retry_on(self):
        self.assertIs(self.move(KeyError(), retry_on=OSError), moves.BURY)
        self.assertIs(self.move(ConnectionError(), retry_on=OSError), moves.RETRY)
        self.assertIs(self.move(KeyError(), retry_on=(OSError, LookupError)), moves.RETRY)

    def test_dead_on_beats_retry_on(self):
        self.assertIs(self.move(KeyError(), dead_on=LookupError), moves.BURY)
        self.assertIs(self.move(KeyError(), retry_on=KeyError, dead_on=(KeyError,)), moves.BURY)

    def test_what_is_no_exception_is_retried_unless_it_is_named(self):
        self.assertIs(self.move(SystemExit(1), retry_on=OSError), moves.RETRY)
        self.assertIs(self.move(SystemExit(1), dead_on=SystemExit), moves.BURY)

    def test_retry_and_snooze_are_the_handlers_own_word(self):
        self.assertIs(self.move(Retry(delay=1), retry_on=()), moves.RETRY)
        self.assertIs(self.move(Snooze(1), dead_on=Exception), moves.SNOOZE)

    def test_its_backoff_before_the_queues(self):
        outcome = verdict(held(backoff={"base": 3, "factor": 1, "jitter": 0}), ValueError())
        self.assertEqual(outcome.row["delay"], 3.0)

    def test_the_backoff_grows_with_the_attempts(self):
        steady = {"base": 1, "factor": 2, "jitter": 0, "max_delay": 100}
        delays = [
            verdict(held(attempts=n, max_attempts=99, backoff=steady), ValueError()).row["delay"]
            for n in (1, 2, 3, 50)
        ]
        self.assertEqual(delays, [1.0, 2.0, 4.0, 100.0])
