"""What ends or renews a lease, and what each of these writes."""

from datetime import timedelta

from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from django_nobroker import BackoffPolicy, Queue, QueueError
from django_nobroker.failures import Failure
from django_nobroker.models import Attempt, Job
from django_nobroker.transitions import settle

from .rows import alter, bring_forward, snapshot


def leased(queue=None, **terms):
    queue = queue or Queue()
    job = queue.enqueue({}, **terms)
    held = queue.lease_one()
    assert held == job
    return held


class Settled(TestCase):
    def assertRow(self, job, **wanted):
        stored = Job.objects.get(pk=job.pk)
        found = {name: getattr(stored, name) for name in wanted}
        self.assertEqual(found, wanted)
        if stored.state != "leased":
            if stored.state != "done":
                self.assertEqual((stored.leased_by, stored.leased_at), ("", None))
            self.assertIsNone(stored.lease_expires_at)
        self.assertEqual(stored.finished_at is None, stored.state in {"ready", "leased"})
        return stored

    def wait(self, job):
        """Return the seconds from the failure to the time when the job is due again."""
        stored = Job.objects.get(pk=job.pk)
        return (stored.available_at - stored.failed_attempts.latest("pk").ended_at).total_seconds()


class AckTests(Settled):
    def test_done(self):
        held = leased()
        self.assertIsNone(Queue().ack(held))
        self.assertRow(held, state="done", fence=2, attempts=1, last_error=None, error_class="")
        self.assertFalse(Attempt.objects.exists())

    def test_a_success_clears_the_error_but_not_the_history(self):
        held = leased()
        Queue().nack(held, error="out of paper", delay=0)
        held = Queue().lease_one()
        Queue().ack(held)
        self.assertRow(held, state="done", last_error=None, error_class="")
        self.assertEqual(Attempt.objects.get().message, "out of paper")

    def test_kept_for_no_time_it_is_deleted_with_its_history(self):
        with self.settings(NOBROKER={"KEEP_DONE": 0}):
            other = leased()
            Queue().nack(other, error="other", delay=3600)
            held = leased()
            Queue().nack(held, error="x", delay=0)
            Queue().ack(Queue().lease_one())
            self.assertEqual(Job.objects.get(), other)
            self.assertEqual(Attempt.objects.get().message, "other")

    def test_after_the_deadline_but_first_it_counts(self):
        held = leased()
        alter(held, lease_expires_at="2026-01-01T00:00:00Z")
        Queue().ack(held)
        self.assertRow(held, state="done")


class NackTests(Settled):
    def test_ready_again_after_the_backoff(self):
        queue = Queue(backoff=BackoffPolicy(base=100, factor=3, jitter=0.5))
        held = leased(queue)
        again = queue.nack(held, error=ValueError("no stock"))
        self.assertRow(held, state="ready", fence=2, attempts=1, lease_losses=0)
        self.assertEqual((again.state, again.last_error), ("ready", "ValueError: no stock"))
        self.assertEqual(again.error_class, "builtins.ValueError")
        self.assertTrue(49 < self.wait(held) < 101)
        bring_forward(held)
        queue.nack(queue.lease_one())
        self.assertTrue(149 < self.wait(held) < 301)

    def test_the_given_delay(self):
        for delay, wanted in ((0, 0), (timedelta(hours=1), 3600), (-5, 0), (1e-5, 0), (0.25, 0.25)):
            held = leased()
            Queue().nack(held, delay=delay)
            with self.subTest(delay=delay):
                self.assertAlmostEqual(self.wait(held), wanted, delta=0.2)
            Queue().purge()

    def test_bad_delays_change_nothing(self):
        held = leased()
        before = snapshot(held)
        for delay in (float("nan"), float("inf"), 10**12, "5", True):
            with self.subTest(delay=delay), self.assertRaises(QueueError):
                Queue().nack(held, delay=delay)
        self.assertEqual(snapshot(held), before)

    def test_dead_when_the_attempts_are_used_up(self):
        held = leased(max_attempts=2)
        self.assertEqual(Queue().nack(held, delay=0).state, "ready")
        again = Queue().nack(Queue().lease_one(), error="the end", delay=5)
        self.assertEqual((again.state, again.attempts, again.last_error), ("dead", 2, "the end"))
        self.assertRow(held, state="dead", fence=4)
        self.assertEqual(Queue().dlq(), [again])

    def test_one_attempt_is_one_run(self):
        self.assertEqual(Queue().nack(leased(max_attempts=1)).state, "dead")

    def test_an_attempt_is_recorded(self):
        held = leased()
        try:
            raise ValueError("no stock")
        except ValueError as error:
            Queue().nack(held, error=error)
        attempt = Attempt.objects.get()
        self.assertEqual((attempt.job_id, attempt.number, attempt.fence), (held.id, 1, held.fence))
        self.assertEqual((attempt.worker, attempt.started_at), (held.leased_by, held.leased_at))
        self.assertEqual(attempt.error_class, "builtins.ValueError")
        self.assertIn("test_an_attempt_is_recorded", attempt.traceback)
        self.assertGreaterEqual(attempt.ended_at, attempt.started_at)

    def test_absurd_numbers_of_attempts_still_make_a_time(self):
        for attempts in (50, 500, 5_000, 32_766):
            held = leased(max_attempts=32_767)
            alter(held, attempts=attempts)
            held.attempts = attempts
            again = Queue(backoff=BackoffPolicy(factor=1e6, max_delay=366 * 86400)).nack(held)
            with self.subTest(attempts=attempts):
                self.assertEqual(again.state, "ready")
                self.assertGreater(again.available_at, again.created_at)


class OtherMovesTests(Settled):
    def apply(self, verdict):
        self.assertEqual(settle.apply("default", [verdict]), {verdict.job.id})

    def test_reject(self):
        held = leased(max_attempts=9)
        self.apply(settle.rejected(held, Failure.of("no such user")))
        self.assertRow(held, state="dead", attempts=1, fence=2, last_error="no such user")
        self.assertEqual(Attempt.objects.get().message, "no such user")

    def test_release_gives_the_attempt_back(self):
        held = leased()
        self.apply(settle.released(held))
        stored = self.assertRow(held, state="ready", attempts=0, fence=2, lease_losses=0)
        self.assertEqual(stored.available_at, held.available_at)
        self.assertEqual(Queue().lease_one(), held)

    def test_snooze_gives_the_attempt_back_and_counts(self):
        held = leased()
        self.apply(settle.snoozed(held, 600))
        stored = self.assertRow(held, state="ready", attempts=0, snoozes=1, fence=2)
        self.assertGreater((stored.available_at - held.leased_at).total_seconds(), 590)
        self.assertFalse(Attempt.objects.exists())

    def test_counts_stop_at_their_bounds(self):
        held = leased()
        alter(held, attempts=0, snoozes=2_000_000_000, lease_losses=32_767)
        self.apply(settle.snoozed(held, 1))
        self.assertRow(held, attempts=0, snoozes=2_000_000_000, lease_losses=32_767)

    def test_extend(self):
        held = leased()
        again = Queue().extend(held, timedelta(hours=2))
        self.assertRow(held, state="leased", fence=held.fence)
        self.assertGreater((again.lease_expires_at - held.leased_at).total_seconds(), 7190)
        for seconds in (-1, float("nan"), 10**12, "5"):
            with self.subTest(seconds=seconds), self.assertRaises(QueueError):
                Queue().extend(held, seconds)

    def test_progress(self):
        held = leased()
        Queue().progress(held, 0.5, "x" * 10_000 + "\x00\ud800")
        stored = self.assertRow(held, state="leased", progress=0.5, fence=held.fence)
        self.assertLessEqual(len(stored.progress_note), 200)
        for fraction in (-0.1, 1.1, float("nan"), "1", None, True):
            with self.subTest(fraction=fraction), self.assertRaises(QueueError):
                Queue().progress(held, fraction)

    def test_of_several_kinds_the_rows_are_locked_in_order_first(self):
        """As everybody does, or two of them could wait for one another."""
        if not connection.features.has_select_for_update:
            self.skipTest("one writer at a time")
        first, second = leased(), leased()
        with CaptureQueriesContext(
            connection,
        ) as captured:
            # Made in the order of their names, and so the second row first.
            settle.apply("default", [settle.released(first), settle.acked(second)])
        statements = [query["sql"] for query in captured if "nobroker_job" in query["sql"]]
        # By the first and only column, or by its name.
        self.assertRegex(
            statements[0], r"(?s)^SELECT \S*id\W.* ORDER BY (1|\S*id\W?)( ASC)? FOR UPDATE$"
        )
        self.assertIn(f"({first.id}, {second.id})", statements[0])
        self.assertFalse([sql for sql in statements[1:] if sql.endswith("FOR UPDATE")])

    def test_a_job_of_another_queue(self):
        held = leased()
        other = Queue("other")
        for call in (
            other.ack,
            other.nack,
            lambda job: other.nack(job, delay=0),
            lambda job: other.extend(job, 5),
            lambda job: other.progress(job, 0.5),
        ):
            with self.assertRaisesMessage(QueueError, "does not belong to queue other"):
                call(held)
