"""Rows that another program wrote: bad ones end with a reason, and stop nobody beside them."""

import io
import json
from unittest import mock

from django.core.management import call_command
from django.test import TestCase, TransactionTestCase, override_settings

from django_nobroker import Queue, SerializationError, policy, tasks, transitions
from django_nobroker.clock import Now
from django_nobroker.conf import QueueOptions
from django_nobroker.models import Attempt, Job
from tests.rows import HOUR, alter, expire, insert
from tests.work import Quiet, fresh, states, work

# Not JSON, whatever a database that checks nothing may have been given.
BROKEN = {
    "nothing": "",
    "blank": "   ",
    "cut short": '{"to": 1',
    "a word": "hello",
    "single quotes": "{'to': 1}",
    "not a number": "NaN",
    "not a number inside": '{"a": [NaN]}',
    "infinity": "-Infinity",
    "two values": "1 2",
    "a lone quote": '"',
    "a control character": '"a\x01b"',
    "nested past any stack": "[" * 200_000,
}
# JSON, however odd.
ODD = {
    "null": "null",
    "an empty list": "[]",
    "a text": '"x"',
    "other keys": '{"args": 5}',
    "40 deep": "[" * 40 + "]" * 40,
    "spaces": ' \n {"a" : 1}\t',
    "a key twice": '{"a": 1, "a": 2}',
    "half a surrogate pair": '"\\ud800"',
    "NUL, escaped": '"\\u0000"',
    "a large number": "1" * 400,
    "an emoji": '"\U0001f600"',
}


class BrokenPayloads(Quiet):
    """The cases; inline and on threads."""

    def test_broken_ones_are_dead_with_the_reason_and_good_ones_run(self):
        good = Queue().enqueue_many(range(10))
        for text in BROKEN.values():
            insert(text)
        good += Queue().enqueue_many(range(10))
        seen = []
        stats = work(lambda job: seen.append(job.payload))
        self.assertEqual(set(states(*good)), {"done"})
        self.assertEqual(len(seen), 20)
        self.assertEqual((stats.succeeded, stats.dead), (20, len(BROKEN)))
        dead = Job.objects.filter(state="dead")
        self.assertEqual(dead.count(), len(BROKEN))
        for job in dead:
            # At once: no second attempt could read it.
            self.assertEqual(job.attempts, 1)
            self.assertIn("is not JSON", job.last_error)
            self.assertIn("is not JSON", job.failed_attempts.get().message)

    def test_odd_ones_are_handed_over_as_they_are(self):
        for text in ODD.values():
            insert(text)
        seen = []
        stats = work(lambda job: seen.append(job.payload))
        self.assertEqual(seen, [json.loads(text) for text in ODD.values()])
        self.assertEqual(stats.succeeded, len(ODD))

    def test_an_async_handler_is_not_called_with_a_broken_one(self):
        called = []

        async def handler(job):
            called.append(job.payload)

        insert("")
        insert("1")
        self.assertEqual(work(handler).dead, 1)
        self.assertEqual(called, [1])

    def test_with_a_policy_that_retries_everything_it_is_dead_all_the_same(self):
        insert("NaN", max_attempts=9)
        work(policy(retry_on=BaseException)(lambda job: None))
        self.assertEqual(Job.objects.get().state, "dead")


class InlineBrokenPayloadTests(BrokenPayloads, TestCase):
    pass


class ThreadedBrokenPayloadTests(BrokenPayloads, TransactionTestCase):
    pass


class ListTests(Quiet, TestCase):
    """Whatever is in the rows, every list opens."""

    def setUp(self):
        super().setUp()
        for text in (*BROKEN.values(), *ODD.values()):
            insert(text)
        work(lambda job: None)
        for text in BROKEN.values():
            insert(text)
        self.total = 2 * len(BROKEN) + len(ODD)

    def test_of_the_queue(self):
        queue = Queue()
        self.assertEqual(queue.stats().total, self.total)
        self.assertEqual(len(queue.list_jobs()), self.total)
        self.assertEqual(len(queue.dlq()), len(BROKEN))
        for job in queue.list_jobs():
            self.assertTrue(str(job))
            self.assertTrue(repr(job))
            self.assertEqual(queue.get(id=job.id).payload_text, job.payload_text)

    def test_the_text_is_there_though_the_value_is_not(self):
        insert("{broken", queue="other")
        [job] = Queue("other").list_jobs()
        self.assertEqual(job.payload_text, "{broken")
        for _ in range(2):
            with self.assertRaisesMessage(SerializationError, f"job {job.pk}"):
                job.payload  # noqa: B018

    def test_of_the_command(self):
        out = io.StringIO()
        call_command("nobroker_stats", stdout=out)
        self.assertIn("default", out.getvalue())

    def test_leased_by_hand_settled_by_hand(self):
        queue = Queue()
        jobs = queue.lease(100)
        self.assertEqual(len(jobs), len(BROKEN))
        for job in jobs:
            queue.nack(job, error="cannot be read")

    def test_requeued_edited_and_deleted(self):
        self.assertEqual(Queue().requeue_dead(), len(BROKEN))
        jobs = Job.objects.filter(payload_text="")
        self.assertEqual(transitions.edit(jobs, payload_text="{}"), 2)
        self.assertEqual(Queue().purge(), self.total)
        self.assertFalse(Attempt.objects.exists())


class WaitingTests(Quiet, TestCase):
    """Jobs that nobody runs wait, untouched, and it is said."""

    def stats(self):
        out = io.StringIO()
        call_command("nobroker_stats", "--json", stdout=out)
        return {report["queue"]: report for report in json.loads(out.getvalue())}

    def test_without_a_handler(self):
        insert(queue="orphans")
        Queue("good").enqueue_many(range(20))
        handlers = {"good": {"HANDLER": "tests.test_bad_rows.nothing"}}
        with (
            override_settings(NOBROKER={"QUEUES": handlers}),
            self.assertLogs("django_nobroker", "WARNING") as log,
        ):
            stats = work(None, None)
            report = self.stats()["orphans"]
        self.assertEqual((stats.leased, stats.succeeded), (20, 20))
        job = Job.objects.get(queue="orphans")
        self.assertEqual((job.state, job.attempts, job.fence), ("ready", 0, 0))
        self.assertEqual(sum("orphans" in line for line in log.output), 1)
        self.assertEqual(report["ready"], 1)
        self.assertIn("no HANDLER in settings", report["notes"])

    def test_in_a_queue_that_nobody_serves(self):
        insert(queue="nobodys")
        Queue("good").enqueue(1)
        work(nothing, ["good"])
        self.assertEqual(Job.objects.get(queue="nobodys").state, "ready")
        self.assertIn("no worker serves it", self.stats()["nobodys"]["notes"])

    @mock.patch.object(tasks, "SUPPORTED", False)
    def test_with_a_task_where_django_has_none(self):
        for task in ("shop.tasks.nosuch", "x" * 255, "a b", "os.system"):
            insert(task=task)
        good = Queue().enqueue_many(range(20))
        called = []
        stats = work(lambda job: called.append(job.task))
        self.assertEqual(stats.succeeded, 20)
        self.assertEqual(called, [""] * 20)
        self.assertEqual(set(states(*good)), {"done"})
        for job in Job.objects.exclude(task=""):
            self.assertEqual((job.state, job.attempts), ("ready", 0))


class ReapTests(Quiet, TestCase):
    """One bad row among the expired ones stops none of the others."""

    def reap(self):
        options = QueueOptions()
        return transitions.reap("default", lambda name: options, in_touch=HOUR)

    def test_a_broken_payload_that_expired(self):
        queue = Queue()
        queue.enqueue_many(range(20))
        jobs = queue.lease(20)
        alter(jobs[7], payload_text="{broken")
        expire(*jobs)
        self.assertEqual(self.reap(), 20)
        self.assertEqual(set(states(*jobs)), {"ready"})
        Job.objects.update(available_at=Now())
        stats = work(lambda job: None)
        self.assertEqual((stats.succeeded, stats.dead), (19, 1))
        self.assertIn("is not JSON", fresh(jobs[7]).last_error)
        self.assertEqual(fresh(jobs[7]).failed_attempts.count(), 2)

    def test_numbers_at_their_limits(self):
        queue = Queue()
        queue.enqueue_many(range(3))
        jobs = queue.lease(3)
        alter(jobs[1], attempts=32767, max_attempts=32767, lease_losses=32767, fence=2**62 - 1)
        expire(*jobs)
        self.assertEqual(self.reap(), 3)
        self.assertEqual(states(*jobs), ["ready", "dead", "ready"])
        self.assertEqual(queue.requeue_dead(), 1)
        stats = work(lambda job: None)
        self.assertEqual(states(jobs[1]), ["done"])
        self.assertEqual(stats.lost_leases, 0)


def nothing(job):
    pass
