"""What becomes of a job by the way its handler ends: inline and on threads, plain and async."""

from django.test import TestCase, TransactionTestCase, override_settings

from django_nobroker import Queue, Reject, Retry, Snooze, policy
from django_nobroker.models import Attempt, Job
from tests.rows import bring_forward
from tests.work import Quiet, fresh, states, work


def raising(error, **chosen):
    """Return a handler that raises."""

    def handler(job):
        raise error

    return policy(**chosen)(handler)


def raising_async(error, **chosen):
    """Return an async handler that raises."""

    async def handler(job):
        raise error

    return policy(**chosen)(handler)


class Outcomes(Quiet):
    """The cases. `raising` makes a handler of the kind under test."""

    raising = staticmethod(raising)

    def setUp(self):
        super().setUp()
        self.queue = Queue(max_attempts=3)
        self.job = self.queue.enqueue({"to": 1})

    def test_failure_comes_back_later(self):
        stats = work(self.raising(ValueError("no luck")))
        job = fresh(self.job)
        self.assertEqual((job.state, job.attempts), ("ready", 1))
        self.assertGreater(job.available_at, self.job.available_at)
        self.assertEqual(
            (job.error_class, job.last_error), ("builtins.ValueError", "ValueError: no luck")
        )
        self.assertEqual((job.leased_by, job.leased_at, job.lease_expires_at), ("", None, None))
        self.assertEqual(tuple(stats), (1, 0, 1, 0, 0))

    def test_each_failure_is_an_attempt_and_the_last_is_dead(self):
        for _ in range(3):
            bring_forward(self.job)
            stats = work(self.raising(ValueError("no luck")))
        job = fresh(self.job)
        self.assertEqual((job.state, job.attempts), ("dead", 3))
        self.assertEqual((stats.failed, stats.dead), (1, 1))
        self.assertIsNotNone(job.finished_at)
        self.assertEqual([letter.pk for letter in self.queue.dlq()], [job.pk])
        attempts = list(job.failed_attempts.order_by("number"))
        self.assertEqual([attempt.number for attempt in attempts], [1, 2, 3])
        for attempt in attempts:
            self.assertEqual(attempt.message, "ValueError: no luck")
            self.assertIn("in handler", attempt.traceback)
            self.assertTrue(attempt.worker)
            self.assertLessEqual(attempt.started_at, attempt.ended_at)

    def test_requeued_it_has_all_its_attempts(self):
        work(self.raising(Reject("not today")))
        self.assertEqual(self.queue.requeue_dead(), 1)
        job = fresh(self.job)
        self.assertEqual((job.state, job.attempts), ("ready", 0))
        work(print_nothing)
        self.assertEqual(states(self.job), ["done"])
        self.assertEqual(Attempt.objects.count(), 1)

    def test_reject_is_dead_at_once(self):
        stats = work(self.raising(Reject("no such user")))
        job = fresh(self.job)
        self.assertEqual((job.state, job.attempts), ("dead", 1))
        self.assertIn("no such user", job.last_error)
        self.assertEqual((stats.failed, stats.dead), (1, 1))

    def test_snooze_gives_the_attempt_back(self):
        stats = work(self.raising(Snooze(3600)))
        job = fresh(self.job)
        self.assertEqual((job.state, job.attempts, job.snoozes), ("ready", 0, 1))
        self.assertEqual(self.queue.stats().delayed, 1)
        self.assertEqual((stats.failed, stats.dead, Attempt.objects.count()), (0, 0, 0))

    def test_snooze_for_ever_is_never_dead(self):
        for _ in range(5):
            bring_forward(self.job)
            work(self.raising(Snooze(3600)))
        job = fresh(self.job)
        self.assertEqual((job.state, job.attempts, job.snoozes), ("ready", 0, 5))

    def test_retry_says_when(self):
        work(self.raising(Retry("rate limit", delay=7200)))
        job = fresh(self.job)
        self.assertEqual((job.state, job.attempts), ("ready", 1))
        self.assertGreater((job.available_at - self.job.available_at).total_seconds(), 7100)
        self.assertIn("rate limit", job.last_error)

    def test_retry_at_once_until_it_is_dead(self):
        stats = work(self.raising(Retry(delay=0)))
        self.assertEqual((fresh(self.job).state, fresh(self.job).attempts), ("dead", 3))
        self.assertEqual((stats.leased, stats.failed, stats.dead), (3, 3, 1))

    def test_dead_on(self):
        work(self.raising(KeyError("x"), dead_on=LookupError))
        self.assertEqual(states(self.job), ["dead"])

    def test_outside_retry_on(self):
        work(self.raising(KeyError("x"), retry_on=OSError))
        self.assertEqual(states(self.job), ["dead"])

    def test_inside_retry_on(self):
        work(self.raising(ConnectionError("x"), retry_on=OSError))
        self.assertEqual(states(self.job), ["ready"])

    def test_the_handlers_backoff_before_the_queues(self):
        steady = {"base": 7200, "factor": 1, "jitter": 0, "max_delay": 7200}
        work(self.raising(ValueError(), backoff=steady))
        delay = fresh(self.job).available_at - self.job.available_at
        self.assertGreater(delay.total_seconds(), 7100)

    @override_settings(
        NOBROKER={
            "QUEUES": {
                "default": {"BACKOFF": {"base": 7200, "factor": 1, "jitter": 0, "max_delay": 7200}}
            }
        }
    )
    def test_the_queues_backoff(self):
        work(self.raising(ValueError()))
        delay = fresh(self.job).available_at - self.job.available_at
        self.assertGreater(delay.total_seconds(), 7100)

    def test_success_clears_the_error_and_keeps_the_history(self):
        work(self.raising(ValueError("no luck")))
        bring_forward(self.job)
        stats = work(print_nothing)
        job = fresh(self.job)
        self.assertEqual((job.state, job.error_class, job.last_error), ("done", "", None))
        self.assertEqual((stats.succeeded, job.failed_attempts.count()), (1, 1))

    @override_settings(NOBROKER={"KEEP_DONE": 0})
    def test_success_is_not_kept(self):
        work(self.raising(ValueError("no luck")))
        bring_forward(self.job)
        work(print_nothing)
        self.assertFalse(Job.objects.exists())
        self.assertFalse(Attempt.objects.exists())


class AsyncOutcomes(Outcomes):
    raising = staticmethod(raising_async)


class OutcomeTests(Outcomes, TestCase):
    pass


class AsyncOutcomeTests(AsyncOutcomes, TestCase):
    pass


class ThreadedOutcomeTests(Outcomes, TransactionTestCase):
    pass


class ThreadedAsyncOutcomeTests(AsyncOutcomes, TransactionTestCase):
    pass


def print_nothing(job):
    pass
