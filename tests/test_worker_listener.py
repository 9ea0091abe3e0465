"""What wakes a worker sooner than it would look by itself."""

import threading
import time
from unittest import mock, skipUnless

from django.contrib.auth.models import Group
from django.db import OperationalError, connection
from django.test import TransactionTestCase

from django_nobroker import Queue, sql
from django_nobroker.transitions import notices
from django_nobroker.worker import listener
from tests.concurrency.stage import other_sessions
from tests.work import DEADLINE, Quiet, eventually, states, worker

DIALECT = sql.dialect(connection)
HEARS = DIALECT.can_listen(connection)


class Ears:
    """Runs a listener or a watcher on a thread, and counts how often it woke somebody."""

    def __init__(self, make, test):
        self.wakes = 0
        self.ears = make(self.woken)
        self.thread = threading.Thread(target=self.ears.run)
        self.thread.start()
        test.addCleanup(self.end)

    def woken(self):
        self.wakes += 1

    def end(self):
        self.ears.stop()
        self.thread.join(DEADLINE)


@skipUnless(HEARS, "only psycopg 3 lets a worker listen")
class ListenerTests(Quiet, TransactionTestCase):
    def setUp(self):
        super().setUp()
        notices._sent.clear()

    def listen(self, serves=lambda queue: queue == "a", peers=lambda: 1):
        ears = Ears(lambda woken: listener.Listener("default", serves, peers, woken), self)
        # Once when it begins to hear: what was told before may have been missed.
        eventually(lambda: ears.wakes == 1)
        return ears

    def test_hears_of_the_queues_that_are_served(self):
        ears = self.listen()
        Queue("b").enqueue(1)
        notices._sent.clear()
        Queue("a").enqueue(1)
        eventually(lambda: ears.wakes == 2)

    def test_hears_of_all_of_them(self):
        ears = self.listen(serves=lambda queue: False)
        notices.send("default", {notices.EVERY_QUEUE})
        eventually(lambda: ears.wakes == 2)

    def test_a_session_that_was_ended_is_replaced_and_said(self):
        with self.assertLogs("django_nobroker", "WARNING") as log:
            ears = self.listen()
            for number in other_sessions():
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_terminate_backend(%s)", [number])
            # It wakes the worker as soon as it is back: it may have missed something.
            eventually(lambda: ears.wakes == 2)
        self.assertIn("lost the database", log.output[0])
        self.assertIn("is back", log.output[1])
        Queue("a").enqueue(1)
        eventually(lambda: ears.wakes == 3)

    def test_is_never_in_a_transaction(self):
        self.listen()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT state, xact_start FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'"
                " AND datname = current_database() AND pid <> pg_backend_pid()"
            )
            self.assertEqual(cursor.fetchall(), [("idle", None)])

    def test_where_notices_do_not_come_through_it_says_so_and_waits(self):
        """As behind PgBouncer in transaction mode."""
        with (
            mock.patch.object(type(DIALECT), "notify"),
            mock.patch.object(listener, "PROOF_FOR", 0.05),
            self.assertLogs("django_nobroker", "WARNING") as log,
        ):
            ears = Ears(lambda woken: listener.Listener("default", bool, lambda: 1, woken), self)
            eventually(lambda: log.output)
        self.assertIn("do not come through", log.output[0])
        self.assertEqual(ears.wakes, 0)

    def test_a_database_that_cannot_be_reached_is_tried_again(self):
        with mock.patch.object(type(DIALECT), "listen", side_effect=OperationalError("gone")):
            ears = Ears(lambda woken: listener.Listener("default", bool, lambda: 1, woken), self)
            eventually(lambda: ears.ears._pause > listener.FIRST_PAUSE)
        eventually(lambda: ears.wakes == 1)


@skipUnless(DIALECT.has_data_version, "only SQLite tells whether its file has changed")
class WatcherTests(Quiet, TransactionTestCase):
    def test_sees_commits_of_others(self):
        ears = Ears(lambda woken: listener.Watcher("default", lambda: True, woken), self)
        time.sleep(0.05)
        before = ears.wakes
        Queue().enqueue(1)
        eventually(lambda: ears.wakes > before)

    def test_a_look_that_fails_is_repeated(self):
        with (
            mock.patch.object(listener, "LONGEST_PAUSE", 0.01),
            mock.patch.object(type(DIALECT), "data_version", side_effect=OperationalError("no")),
        ):
            ears = Ears(lambda woken: listener.Watcher("default", lambda: True, woken), self)
            time.sleep(0.05)
        time.sleep(0.05)
        Queue().enqueue(1)
        eventually(lambda: ears.wakes)


@skipUnless(HEARS or DIALECT.has_data_version, "nothing wakes a worker on this database")
class WorkerTests(Quiet, TransactionTestCase):
    """A worker that would look by itself once in an hour."""

    def test_starts_what_it_is_told_of(self):
        notices._sent.clear()
        lazy = worker(
            lambda job: Group.objects.create(name=str(job.id)), burst=False, poll_interval=3600
        )
        thread = threading.Thread(target=lazy.run)
        thread.start()
        try:
            for _ in range(3):
                job = Queue().enqueue(1)
                eventually(lambda job=job: states(job) == ["done"])
                time.sleep(0.02)
            later = Queue().enqueue(1, delay=0.2)
            eventually(lambda: states(later) == ["done"])
        finally:
            lazy.stop()
            thread.join(DEADLINE)
