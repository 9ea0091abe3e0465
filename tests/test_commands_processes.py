"""The worker as a program: what ends it, and with which exit code."""

import asyncio
import atexit
import os
import signal
import time

from django.contrib.auth.models import Group
from django.db import connection
from django.test import TransactionTestCase

from django_nobroker import Queue
from django_nobroker.models import Format, WorkerProcess
from tests.processes import alone, environment, finish, spawn
from tests.work import eventually

HERE = "tests.test_commands_processes"
NOWHERE = {
    "sqlite": "/nonexistent/nobroker.sqlite3",
    "postgresql": "nobroker_no_such_database",
    "mysql": "nobroker_no_such_database",
}
# Databases that are there and have no tables of ours: the names in the settings themselves.
BARE = {"sqlite": ":memory:", "postgresql": "postgres", "mysql": "information_schema"}


def nothing(job):
    pass


def leave_a_mark(job):
    """Leave a group behind, so that another process can see that the job has run."""
    Group.objects.create(name=f"ran {job.payload}")


def say_goodbye(job):
    """Leave something to be done when the process ends."""
    atexit.register(print, "goodbye")


async def outstay(job):
    """Run on in a thread that Python waits for at the end of the process."""
    await Group.objects.acreate(name="outstaying")
    await asyncio.shield(asyncio.to_thread(time.sleep, 600))


@alone
class ProcessTests(TransactionTestCase):
    """As a program of its own."""

    def start(self, *args, **variables):
        env = environment() | {"PYTHONWARNINGS": "error", **variables}
        return spawn("-m", "django", "nobroker_work", *args, env=env)

    def test_a_finished_burst_is_0(self):
        Queue().enqueue(1)
        said = finish(self.start(f"{HERE}:leave_a_mark", "--burst"))
        self.assertIn("succeeded 1", said)
        self.assertTrue(Group.objects.filter(name="ran 1").exists())

    def test_a_clean_end_runs_what_waits_for_the_end_of_the_process(self):
        Queue().enqueue(1)
        said = finish(self.start(f"{HERE}:say_goodbye", "--burst"))
        self.assertEqual(said.strip().splitlines()[-1], "goodbye")

    def test_a_handler_that_was_given_up_does_not_hold_up_the_end(self):
        Queue().enqueue(1)
        process = self.start(f"{HERE}:outstay", "--shutdown-timeout", "0")
        try:
            eventually(Group.objects.filter(name="outstaying").exists)
        finally:
            os.kill(process.pid, signal.SIGTERM)
        said = finish(process, timeout=30)
        self.assertNotIn("Traceback", said)
        self.assertEqual(Queue().stats().ready, 1)

    def test_a_signal_is_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                process = self.start(f"{HERE}:nothing")
                try:
                    eventually(WorkerProcess.objects.filter(pid=process.pid).exists)
                finally:
                    os.kill(process.pid, number)
                said = finish(process)
                self.assertNotIn("Traceback", said)

    def one_line(self, said):
        self.assertNotIn("Traceback", said)
        self.assertEqual(len(said.strip().splitlines()), 1, said)

    def test_bad_usage_is_2(self):
        self.one_line(finish(self.start(f"{HERE}:nosuch"), code=2))
        self.one_line(finish(self.start(f"{HERE}:nothing", "-q", "a b"), code=2))
        said = finish(self.start("--nosuch"), code=2)
        self.assertNotIn("Traceback", said)

    def test_no_database_is_3(self):
        process = self.start(f"{HERE}:nothing", NOBROKER_TEST_DBNAME=NOWHERE[connection.vendor])
        self.assertNotIn("Traceback", finish(process, code=3))

    def test_not_migrated_is_4(self):
        process = self.start(f"{HERE}:nothing", NOBROKER_TEST_DBNAME=BARE[connection.vendor])
        said = finish(process, code=4)
        self.one_line(said)
        self.assertIn("migrate", said)

    def test_an_unknown_format_is_5(self):
        Format.objects.update_or_create(key="format", defaults={"version": 99})
        try:
            self.one_line(finish(self.start(f"{HERE}:nothing"), code=5))
        finally:
            Format.objects.all().delete()
