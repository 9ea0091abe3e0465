"""The quickstart, with the command in a process of its own and the settings of a new project."""

from datetime import datetime, timedelta

from django_nobroker import Job, Queue
from django_nobroker.models import Attempt

from .stage import ProcessTestCase

# SQLite keeps milliseconds.
GRAIN = timedelta(milliseconds=2)


class QuickstartTests(ProcessTestCase):
    nobroker = {}

    def test_two_jobs_are_handled_in_another_process(self):
        queue = Queue("emails")
        queue.enqueue("ann")
        queue.enqueue("bob")
        self.assertEqual(
            str(queue.stats()),
            "QueueStats(ready=2, delayed=0, leased=0, done=0, dead=0, cancelled=0, total=2)",
        )
        worker = self.worker("note", "--idle-timeout", 1)
        worker.wait()
        self.assertEqual(self.marks("done"), ["ann", "bob"])
        self.assertEqual(queue.stats().done, 2)
        self.assert_calm()

    def test_what_always_fails_is_retried_and_seen_to_its_end(self):
        queue = Queue(max_attempts=3)
        job = queue.enqueue({"to": "ann"})
        self.worker("fail", "--idle-timeout", 1).wait()
        [dead] = queue.dlq()
        self.assertEqual((dead.id, dead.attempts), (job.id, 3))
        self.assertIn("it never works", dead.last_error)
        self.assert_backed_off()
        self.assertEqual(queue.requeue_dead(), 1)
        again = queue.get(id=job.id)
        self.assertEqual((again.state, again.attempts), ("ready", 0))

    def assert_backed_off(self):
        """Assert that the retries were due 0.5 to 1 s, then 1 to 2 s after the failures."""
        attempts = list(Attempt.objects.order_by("number"))
        self.assertEqual([attempt.number for attempt in attempts], [1, 2, 3])
        due = [datetime.fromisoformat(text) for text in self.marks("due")]
        for number, (least, most) in enumerate([(0.5, 1.0), (1.0, 2.0)]):
            failed = attempts[number]
            # The retry was written between the start and the end of the failed attempt.
            self.assertGreaterEqual(
                due[number + 1] + GRAIN, failed.started_at + timedelta(seconds=least)
            )
            self.assertLessEqual(due[number + 1], failed.ended_at + timedelta(seconds=most) + GRAIN)
            self.assertGreaterEqual(attempts[number + 1].started_at + GRAIN, due[number + 1])


class PollingTests(ProcessTestCase):
    """Nobody wakes these workers: they look again when the next job is due."""

    def test_a_worker_wakes_for_a_retry(self):
        self.queue.enqueue("job")
        self.worker("fail_first", "--poll-interval", 600)
        self.wait_for_states(done=1)

    def test_a_worker_wakes_for_a_delayed_job(self):
        self.queue.enqueue("job", delay=2.0)
        self.worker("note", "--poll-interval", 600)
        self.wait_for_states(done=1)

    def test_a_worker_polls_for_what_comes_later(self):
        worker = self.worker("note")
        self.wait_until_said(worker, "serves")
        self.queue.enqueue("new")
        self.wait_for_states(done=1)
        dead = self.queue.enqueue("again", run_after=None)
        self.wait_for_states(done=2)
        Job.objects.filter(id=dead.id).update(state="dead")
        self.assertEqual(self.queue.requeue_dead(), 1)
        self.wait_for_mark("done", 3)
        self.wait_for_states(done=2)
        self.assert_calm()
