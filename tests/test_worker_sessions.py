"""A handler's connection is clean for the next job, whatever the one before did to it."""

import contextlib
import threading

from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.db.backends.signals import connection_created
from django.db.utils import IntegrityError
from django.test import SimpleTestCase, TransactionTestCase, override_settings

from django_nobroker import Queue, sql
from django_nobroker.worker.sessions import changes_session
from tests.work import Quiet, fresh, work


class StatementTests(SimpleTestCase):
    def test_harmless(self):
        for statement in (
            "SELECT 1",
            "  (select 1)",
            "insert into a values (1)",
            "UPDATE a SET b = 1",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "SAVEPOINT x",
            "ROLLBACK TO SAVEPOINT x",
            "SELECT 1;",
        ):
            with self.subTest(statement):
                self.assertFalse(changes_session(statement))

    def test_local_to_its_transaction(self):
        for statement in (
            "SET LOCAL lock_timeout = 1",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET CONSTRAINTS ALL DEFERRED",
        ):
            with self.subTest(statement):
                self.assertFalse(changes_session(statement, is_local=True))
                self.assertTrue(changes_session(statement))

    def test_lasting(self):
        for statement in (
            "SET search_path TO a",
            "\n set role b",
            "BEGIN",
            "START TRANSACTION",
            "PRAGMA foreign_keys = OFF",
            "LOCK TABLES a WRITE",
            "CREATE TEMPORARY TABLE a (b int)",
            "SELECT set_config('role', 'b', false)",
            "SELECT pg_advisory_lock(1)",
            "SELECT GET_LOCK('a', 1)",
            "USE other",
            "PREPARE a AS SELECT 1",
            "WITH a AS (SELECT 1) SELECT set_config('role', 'b', false) FROM a",
            "SELECT 1; SET ROLE b",
        ):
            with self.subTest(statement):
                self.assertTrue(changes_session(statement))


def swallow():
    with transaction.atomic():
        Group.objects.create(name="left over")
        with contextlib.suppress(IntegrityError):
            Group.objects.create(name="left over")


def autocommit_off():
    transaction.set_autocommit(False)
    Group.objects.create(name="left over")


def begin():
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
    Group.objects.create(name="left over")


def never_left():
    transaction.atomic().__enter__()
    Group.objects.create(name="left over")


def close_inside():
    with transaction.atomic():
        Group.objects.create(name="left over")
        connection.close()


def fail_inside():
    transaction.atomic().__enter__()
    Group.objects.create(name="left over")
    raise ValueError("and never left")


def close_under_the_wrapper():
    connection.ensure_connection()
    connection.connection.close()


MESSES = (
    swallow,
    autocommit_off,
    begin,
    never_left,
    close_inside,
    fail_inside,
    close_under_the_wrapper,
)
SETTINGS = {
    "postgresql": ("SET lock_timeout = 1234", "SHOW lock_timeout"),
    "mysql": ("SET SESSION innodb_lock_wait_timeout = 1234", "SELECT @@innodb_lock_wait_timeout"),
    "sqlite": ("PRAGMA cache_size = 1234", "PRAGMA cache_size"),
}


def ask(statement):
    """Return the first value that a statement answers."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


@contextlib.contextmanager
def opened():
    """Keep every connection that is opened meanwhile, of whatever thread."""
    found = []

    def keep(*, connection, **kwargs):
        if connection not in found:
            found.append(connection)

    connection_created.connect(keep)
    try:
        yield found
    finally:
        connection_created.disconnect(keep)


class MessTests(Quiet, TransactionTestCase):
    """The mess is made by one job; the next one runs on the same thread."""

    def look(self, job):
        self.seen.append(threading.get_ident())
        self.assertTrue(connection.get_autocommit())
        self.assertFalse(connection.in_atomic_block)
        Group.objects.create(name=f"normal {job.pk}")

    def after(self, mess):
        """Run the mess and a normal job after it; return the two jobs as they then are."""
        self.seen = []

        def handler(job):
            if job.payload == "mess":
                self.seen.append(threading.get_ident())
                mess()
            else:
                self.look(job)

        jobs = Queue(max_attempts=1).enqueue_many(["mess", "normal"])
        work(handler)
        self.assertEqual(len(set(self.seen)), 1)
        return [fresh(job) for job in jobs]

    def test_leftovers_are_rolled_back_and_the_next_job_is_clean(self):
        told = type(sql.dialect(connection)) is not sql.Dialect
        for mess in MESSES:
            if mess is close_under_the_wrapper and not told:
                continue  # the plain ORM path asks no driver
            with self.subTest(mess.__name__):
                first, second = self.after(mess)
                self.assertIn(first.state, ("done", "dead"))
                self.assertEqual((second.state, second.last_error), ("done", None))
                self.assertFalse(Group.objects.filter(name="left over").exists())
                self.assertTrue(Group.objects.filter(name=f"normal {second.pk}").exists())

    def test_settings_of_the_session_do_not_last(self):
        change, question = SETTINGS[connection.vendor]
        before = ask(question)
        found = []

        def handler(job):
            if job.payload == 1:
                with connection.cursor() as cursor:
                    cursor.execute(change)
            found.append(str(ask(question)))

        Queue().enqueue_many([1, 2])
        work(handler)
        self.assertTrue(found[0].startswith("1234"))
        self.assertEqual(found[1], str(before))

    def test_role_and_search_path_do_not_last(self):
        if connection.vendor != "postgresql":
            self.skipTest("PostgreSQL's own")
        found = []

        def handler(job):
            if job.payload == 1:
                with connection.cursor() as cursor:
                    cursor.execute("SET search_path TO pg_catalog")
                    cursor.execute("SET ROLE pg_monitor")
            found.append((ask("SHOW search_path"), ask("SELECT current_user")))

        Queue().enqueue_many([1, 2])
        work(handler)
        self.assertEqual(found[1], (ask("SHOW search_path"), ask("SELECT current_user")))

    def test_the_connection_is_kept_when_nothing_is_wrong(self):
        with opened() as found:
            Queue().enqueue_many(range(50))
            work(self.look_on)
        # One for this test, one for the handlers, one for each part of the worker.
        self.assertLessEqual(len(found), 6)

    def look_on(self, job):
        Group.objects.create(name=job.pk)

    @override_settings(DEBUG=True)
    def test_the_log_of_queries_does_not_grow(self):
        lengths = []

        def handler(job):
            lengths.append(len(connection.queries_log))
            for _ in range(10):
                Group.objects.count()

        with opened() as found:
            Queue().enqueue_many(range(300))
            work(handler, concurrency=2)
        self.assertEqual(set(lengths), {0})
        for one in found:
            # At most what one group of outcomes takes, on the path that goes row by row.
            self.assertLess(len(one.queries_log), 1000)
