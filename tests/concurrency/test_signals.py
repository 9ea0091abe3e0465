"""SIGTERM and SIGINT: the first one drains, the second one leaves, and both end with code 0."""

import os
import random
import signal
import time

from django.contrib.auth.models import Group
from django.db import connection

from django_nobroker import Job
from django_nobroker.models import Attempt, WorkerProcess

from .stage import ProcessTestCase, process_is_there

TERM, INT = signal.SIGTERM, signal.SIGINT


class SignalTests(ProcessTestCase):
    def busy_worker(self, handler="hang", *options):
        self.queue.enqueue("job")
        worker = self.worker(handler, *options)
        self.wait_for_mark("started")
        return worker

    def test_the_first_signal_lets_the_job_finish(self):
        for number in (TERM, INT):
            with self.subTest(signal=number.name):
                worker = self.busy_worker()
                self.queue.enqueue("next")
                worker.send(number)
                self.wait_until_said(worker, "waits for 1 running job")
                self.mark("go")
                worker.wait()
                self.assertEqual(self.states(), {"done": 1, "ready": 1})
                self.assertFalse(WorkerProcess.objects.exists())
                self.assert_calm(worker)
            self.queue.purge()
            (self.scene / "started").unlink()
            (self.scene / "go").unlink()

    def test_the_second_signal_leaves_at_once(self):
        for first, second in ((TERM, TERM), (INT, INT), (TERM, INT)):
            with self.subTest(first=first.name, second=second.name):
                worker = self.busy_worker()
                worker.send(first)
                self.wait_until_said(worker, "waits for 1 running job")
                worker.send(second)
                worker.wait()
                job = Job.objects.get()
                self.assertEqual((job.state, job.attempts), ("ready", 0))
                self.assert_calm(worker)
            self.queue.purge()
            (self.scene / "started").unlink()

    def test_a_child_process_does_not_keep_its_worker(self):
        self.queue.enqueue("job")
        handler = "tests.concurrency.harmful:start_child"
        worker = self.start("worker", "-m", "django", "nobroker_work", handler)
        self.wait_for_mark("child")
        [child] = map(int, self.marks("child"))
        worker.send(TERM)
        self.wait_until_said(worker, "waits for 1 running job")
        worker.stop()
        if process_is_there(child):
            os.kill(child, signal.SIGKILL)
        self.assertEqual(self.states(), {"ready": 1})

    def test_a_coroutine_that_refuses_to_end_is_left_behind(self):
        worker = self.busy_worker("refuse_to_end", "--shutdown-timeout", 0.5)
        worker.send(TERM)
        worker.wait()
        job = Job.objects.get()
        self.assertEqual((job.state, job.attempts), ("ready", 0))
        self.assertEqual(worker.totals["succeeded"], 0)


class UnstartedTests(ProcessTestCase):
    def test_what_was_not_started_is_given_back_unharmed(self):
        self.queue.enqueue_many(["quick"] * 300 + ["slow"] + ["quick"] * 50)
        worker = self.worker("hang_if_told")
        self.wait_for_mark("started")
        worker.send(TERM)
        self.wait_for_states(done=300, leased=1, ready=50)
        self.assertFalse(Job.objects.filter(state="ready", attempts__gt=0).exists())
        other = self.worker("hang_if_told")
        self.wait_for_states(done=350, leased=1)
        self.mark("go")
        worker.wait()
        other.stop()
        self.assertEqual(Job.objects.filter(state="done", attempts=1).count(), 351)
        self.assertFalse(Attempt.objects.exists())


class RestartTests(ProcessTestCase):
    jobs = 300
    restarts = 3
    # Seconds that PostgreSQL takes for a commit in the slow version.
    commit = 0.2

    def test_restarts_lose_no_job_and_no_attempt(self):
        self.restart_until_done()

    def test_restarts_with_slow_commits(self):
        if connection.vendor != "postgresql":
            self.skipTest("needs a deferred trigger")
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN PERFORM pg_sleep({self.commit}); RETURN NULL; END $$;"
                "CREATE CONSTRAINT TRIGGER nap AFTER UPDATE ON nobroker_job"
                " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nap()"
            )
        self.jobs = 10
        try:
            self.restart_until_done()
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP FUNCTION nap() CASCADE")

    def restart_until_done(self):
        """Send SIGTERM at any moment from the worker's first line on."""
        self.queue.enqueue_many({"effect": f"job {n}"} for n in range(self.jobs))
        for turn in range(self.restarts):
            worker = self.worker("effect_slowly", "-c", 1 + turn % 2 * 3)
            self.wait_until_said(worker, "Ctrl-C stops it")
            time.sleep(0 if turn == 0 else random.random() * 0.3)
            worker.stop()
            self.assert_calm(worker)
            self.assertNotIn("leased", self.states())
        last = self.worker("effect_slowly", "-c", 4)
        self.wait_until_said(last, "Ctrl-C stops it")
        self.wait_for_states(done=self.jobs)
        last.stop()
        self.assertEqual(Group.objects.count(), self.jobs)
        self.assertEqual(Job.objects.filter(attempts=1).count(), self.jobs)


class BrokenStartTests(ProcessTestCase):
    def test_a_database_out_of_reach_has_its_own_exit_code(self):
        if connection.vendor == "sqlite":
            database = {"NAME": "/nowhere/at/all.sqlite3"}
        else:
            database = {"HOST": "127.0.0.1", "PORT": "1"}
        said = self.worker("note", database=database).wait(code=3)
        self.assertNotIn("Traceback", said)
        self.assertIn("cannot be used", said)
