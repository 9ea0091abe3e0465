"""Connections: what a handler leaves behind, and what the server takes away."""

from django.contrib.auth.models import Group
from django.db import connection, transaction

from django_nobroker import Job
from django_nobroker.models import Attempt, WorkerProcess

from .harmful import DIRTY
from .stage import ProcessTestCase, cut_other_sessions, other_sessions

HARMFUL = "tests.concurrency.harmful"


class LeftBehindTests(ProcessTestCase):
    def test_the_next_job_finds_a_clean_connection(self):
        for name in DIRTY:
            self.queue.enqueue(name, max_attempts=1)
            self.queue.enqueue(f"after-{name}", max_attempts=1)
        worker = self.start("worker", "-m", "django", "nobroker_work", f"{HARMFUL}:soil_connection")
        self.wait_for(lambda: not {"ready", "leased"} & self.states().keys(), "the end of all jobs")
        worker.stop()
        self.assertEqual(self.marks("after"), [f"after-{name}:True" for name in DIRTY])
        self.assertFalse(Group.objects.filter(name="left behind").exists())
        dead = {job.payload for job in Job.objects.filter(state="dead")}
        self.assertLessEqual(dead, set(DIRTY))
        self.assertEqual(Group.objects.count(), len(DIRTY))

    def test_statements_are_not_kept_when_debugging(self):
        self.debug = True
        self.queue.enqueue_many(range(100))
        self.start("worker", "-m", "django", "nobroker_work", f"{HARMFUL}:count_queries",
                   "-c", 2, "--burst").wait()  # fmt: skip
        # Each of the two threads has connected once, which takes statements on MySQL.
        self.assertGreaterEqual(self.marks("queries").count("1"), 98)


class TakenAwayTests(ProcessTestCase):
    def setUp(self):
        super().setUp()
        if connection.vendor == "sqlite":
            self.skipTest("has no server")

    def test_connections_that_end_between_jobs_cost_no_attempt(self):
        for health_checks in (False, True):
            with self.subTest(health_checks=health_checks):
                self.queue.purge()
                Group.objects.all().delete()
                self.database = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": health_checks}
                worker = self.worker("effect")
                for turn in range(3):
                    self.queue.enqueue({"effect": f"job {turn}"})
                    self.wait_for_states(done=turn + 1)
                    cut_other_sessions()
                worker.stop()
                self.assertFalse(Attempt.objects.exists())
                self.assertFalse(WorkerProcess.objects.exists())

    def test_connections_that_end_while_jobs_run(self):
        self.queue.enqueue_many({"effect": f"job {n}"} for n in range(200))
        worker = self.worker("effect_again", "-c", 2)
        for share in (10, 50, 90):
            self.wait_for(lambda share=share: self.states().get("done", 0) > share, "some jobs")
            cut_other_sessions()
        self.wait_for_states(done=200)
        worker.stop()
        self.assertEqual(Group.objects.count(), 200)

    def test_a_worker_keeps_few_connections(self):
        self.queue.enqueue_many(range(40))
        before = len(other_sessions())
        self.start("worker", "-m", "django", "nobroker_work", f"{HARMFUL}:read_in_threads", "-c", 4)
        most = 0
        while self.states().keys() != {"done"}:
            most = max(most, len(other_sessions()) - before)
        # The claimer, the settler and the keeper; a runner each, and its four threads.
        self.assertLessEqual(most, 3 + 4 + 4 * 4)
        self.wait_for(lambda: len(other_sessions()) - before <= 3 + 4, "the end of the others")


class TransactionTests(ProcessTestCase):
    def test_a_job_is_seen_when_its_transaction_commits(self):
        worker = self.worker("find_order", "--poll-interval", 0.02)
        self.wait_until_said(worker, "Ctrl-C stops it")
        for number in range(3):
            with transaction.atomic():
                Group.objects.create(name=f"order {number}")
                self.queue.enqueue(f"order {number}", max_attempts=1)
                self.let_worker_look()
        with transaction.atomic():
            Group.objects.create(name="no order")
            self.queue.enqueue("no order", max_attempts=1)
            self.let_worker_look()
            transaction.set_rollback(True)
        self.wait_for_states(done=3)
        worker.stop()
        self.assert_calm()

    def let_worker_look(self):
        """Give the worker time for a few looks. Were it too short, less would be tested."""
        with connection.cursor() as cursor:
            nap = {"postgresql": "SELECT pg_sleep(0.3)", "mysql": "SELECT SLEEP(0.3)"}
            cursor.execute(nap.get(connection.vendor, "SELECT 1"))
