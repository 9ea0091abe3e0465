"""A key names one job of its queue, whatever its state."""

from django.contrib.auth.models import User
from django.db import transaction
from django.test import TestCase
from django.utils.timezone import now

from django_nobroker import Queue
from django_nobroker.models import Job

from .rows import alter


class KeyTests(TestCase):
    def test_one_job_for_a_key_in_any_state(self):
        first = Queue().enqueue({"n": 1}, job_id="key")
        for state in ("ready", "leased", "done", "dead", "cancelled"):
            ends = {"finished_at": now() if state in {"done", "dead", "cancelled"} else None}
            alter(first, state=state, lease_expires_at=now() if state == "leased" else None, **ends)
            with self.subTest(state=state):
                again = Queue().enqueue({"n": 2}, job_id="key", priority=5)
                self.assertEqual((again.id, again.created), (first.id, False))
                self.assertEqual((again.payload, again.priority, again.state), ({"n": 1}, 0, state))
        self.assertEqual(Job.objects.count(), 1)

    def test_a_key_is_of_its_queue(self):
        first, second = (Queue(name).enqueue({}, job_id="key") for name in ("a", "b"))
        self.assertTrue(first.created and second.created)

    def test_keys_that_run_together(self):
        pairs = [("a", "bc"), ("ab", "c"), ("a:b", "c"), ("a", "b:c")]
        for queue, key in (("q", "-".join(pair)) for pair in pairs):
            self.assertTrue(Queue(queue).enqueue({}, job_id=key).created)

    def test_the_longest_key(self):
        key = "\U0001f600" * 190
        self.assertTrue(Queue().enqueue({}, job_id=key).created)
        self.assertFalse(Queue().enqueue({}, job_id=key).created)
        self.assertEqual(Queue().get(key).job_id, key)

    def test_that_nothing_happens_to_a_dead_one_is_said(self):
        job = Queue("emails").enqueue({}, job_id="key")
        for state in ("dead", "cancelled"):
            alter(job, state=state, finished_at=now())
            with self.assertLogs("django_nobroker", "WARNING") as logs:
                Queue("emails").enqueue({}, job_id="key")
            self.assertIn(state, logs.output[0])
            self.assertEqual(logs.records[0].job_id, job.id)

    def test_nothing_is_said_of_a_live_one(self):
        Queue().enqueue({}, job_id="key")
        with self.assertNoLogs("django_nobroker"):
            Queue().enqueue({}, job_id="key")

    def test_the_block_stays_usable(self):
        Queue().enqueue({}, job_id="key")
        with transaction.atomic():
            User.objects.create(username="x")
            self.assertFalse(Queue().enqueue({}, job_id="key").created)
            User.objects.create(username="y")
        self.assertEqual(User.objects.count(), 2)

    def test_a_key_is_free_once_its_job_is_gone(self):
        Queue().enqueue({}, job_id="key")
        Queue().purge()
        self.assertTrue(Queue().enqueue({}, job_id="key").created)
