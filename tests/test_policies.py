"""The policy of a function: checked where it is written, found where it is used."""

import asyncio
import functools

from django.test import SimpleTestCase

from django_nobroker import BackoffPolicy, QueueError, policy
from django_nobroker.policies import Policy, policy_of


class PolicyTests(SimpleTestCase):
    def test_leaves_the_function_as_it_is(self):
        def send(job):
            return job

        decorated = policy(max_attempts=3)(send)
        self.assertIs(decorated, send)
        self.assertEqual(decorated(5), 5)
        self.assertEqual(policy_of(send).max_attempts, 3)

    def test_without_one_all_is_left_to_the_queue(self):
        self.assertEqual(policy_of(print), Policy())
        self.assertEqual(policy_of(functools.partial(print)), Policy())

    def test_backoff_as_a_dictionary(self):
        @policy(backoff={"base": 5.0})
        def send(job): ...

        self.assertEqual(policy_of(send).backoff, BackoffPolicy(base=5.0))

    def test_above_task_it_says_where_to_go(self):
        class Task:
            module_path = "app.tasks.send"

            def __call__(self): ...

        with self.assertRaisesMessage(TypeError, "below @task"):
            policy(max_attempts=3)(Task())

    def test_impossible_values(self):
        for given in (
            {"max_attempts": 0},
            {"max_attempts": 32_768},
            {"max_attempts": True},
            {"max_attempts": 1.0},
            {"max_attempts": "3"},
            {"backoff": {"base": -1}},
            {"retry_on": "ValueError"},
            {"retry_on": [ValueError]},
            {"dead_on": ValueError()},
            {"dead_on": (ValueError, int)},
        ):
            with self.subTest(given=given), self.assertRaises(QueueError):
                policy(**given)

    def test_a_backoff_that_is_none(self):
        for backoff in (5, "slow", lambda attempt: 3, {"bse": 1.0}):
            with self.subTest(backoff=backoff), self.assertRaises(QueueError):
                policy(backoff=backoff)


class RetriesTests(SimpleTestCase):
    def test_exceptions_are_retried(self):
        self.assertTrue(Policy().retries(ValueError()))

    def test_outside_retry_on_they_are_not(self):
        chosen = Policy(retry_on=(OSError, ValueError))
        self.assertTrue(chosen.retries(ConnectionError()))
        self.assertFalse(chosen.retries(KeyError()))

    def test_dead_on_beats_retry_on(self):
        chosen = Policy(retry_on=OSError, dead_on=FileNotFoundError)
        self.assertTrue(chosen.retries(PermissionError()))
        self.assertFalse(chosen.retries(FileNotFoundError()))

    def test_what_is_no_exception_is_a_failed_attempt(self):
        for error in (SystemExit(), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()):
            with self.subTest(error=error):
                self.assertTrue(Policy().retries(error))
                self.assertTrue(Policy(retry_on=OSError).retries(error))
                self.assertFalse(Policy(dead_on=BaseException).retries(error))
