"""A part's own connection: repeats what lost a race, drops what is broken, and says so once."""

from unittest import mock

from django.contrib.auth.models import Group
from django.db import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.test import TestCase, TransactionTestCase, override_settings

from django_nobroker import sql
from django_nobroker.worker import link
from django_nobroker.worker.link import LONGEST_PAUSE, Link, Unreachable, discard
from tests.work import Quiet


class Failing:
    """Work that fails with each of these errors in turn, then succeeds."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


class LinkTests(Quiet, TransactionTestCase):
    def setUp(self):
        super().setUp()
        self.link = Link("default", "test")
        self.addCleanup(discard, "default")

    def test_returns_what_the_work_returns(self):
        self.assertEqual(self.link.run(lambda: 5), 5)
        self.assertFalse(self.link.is_down)

    def test_an_error_of_the_statement_passes(self):
        for error in (IntegrityError("twice"), DataError("too long"), ValueError("ours")):
            with self.subTest(error=repr(error)):
                work = Failing(error)
                with self.assertRaises(type(error)):
                    self.link.run(work)
                self.assertEqual(work.calls, 1)
                self.assertFalse(self.link.is_down)

    def test_what_lost_against_another_transaction_is_repeated(self):
        conflict = mock.patch.object(
            type(sql.dialect(connection)), "is_conflict", lambda self, error: True
        )
        work = Failing(OperationalError("deadlock"), OperationalError("deadlock"))
        with conflict:
            self.assertEqual(self.link.run(work), "done")
        self.assertEqual(work.calls, 3)

    def test_but_not_for_ever(self):
        conflict = mock.patch.object(
            type(sql.dialect(connection)), "is_conflict", lambda self, error: True
        )
        with conflict, self.assertRaises(Unreachable):
            self.link.run(Failing(*[OperationalError("deadlock")] * 1000))

    def test_a_broken_connection_is_dropped_and_another_opened(self):
        for error in (OperationalError("gone away"), InterfaceError("closed")):
            with self.subTest(error=repr(error)):
                before = connections["default"]
                breaks = link.breaks()
                with self.assertRaises(Unreachable):
                    self.link.run(Failing(error))
                self.assertTrue(self.link.is_down)
                self.assertNotEqual(link.breaks(), breaks)
                self.assertIsNot(connections["default"], before)
                self.assertEqual(self.link.run(Group.objects.count), 0)
                self.assertFalse(self.link.is_down)

    def test_one_that_is_closed_under_it(self):
        connection.ensure_connection()
        connection.connection.close()
        with self.assertRaises(Unreachable):
            self.link.run(Group.objects.count)
        self.assertEqual(self.link.run(Group.objects.count), 0)

    def test_is_said_once_when_it_goes_and_once_when_it_comes(self):
        with self.assertLogs("django_nobroker", "WARNING") as log:
            for _ in range(3):
                with self.assertRaises(Unreachable):
                    self.link.run(Failing(OperationalError("gone away")))
            self.link.run(Failing())
            self.link.run(Failing())
        self.assertEqual(len(log.output), 2)
        self.assertIn("gone away", log.output[0])
        self.assertIn("again", log.output[1])

    def test_each_failure_lengthens_the_pause_up_to_a_limit(self):
        pauses = []
        for _ in range(12):
            with self.assertRaises(Unreachable):
                self.link.run(Failing(OperationalError("gone away")))
            pauses.append(self.link._pause)
            self.assertTrue(0 < self.link.pause <= LONGEST_PAUSE)
        self.assertEqual(pauses, sorted(pauses))
        self.assertEqual(pauses[-1], LONGEST_PAUSE)
        self.link.run(Failing())
        self.assertEqual(self.link.pause, 0.0)

    def test_what_was_half_written_is_not_kept(self):
        def work():
            with transaction.atomic():
                Group.objects.create(name="half")
                raise OperationalError("gone away")

        with self.assertRaises(Unreachable):
            self.link.run(work)
        self.assertFalse(Group.objects.exists())

    @override_settings(DEBUG=True)
    def test_the_log_of_queries_does_not_grow(self):
        for _ in range(50):
            self.link.run(Group.objects.count)
        self.assertLessEqual(len(connection.queries_log), 2)

    def test_closing(self):
        connection.ensure_connection()
        self.link.close()
        self.assertIsNone(connection.connection)


class InTransactionTests(Quiet, TestCase):
    """Inside a test's own transaction nothing is repeated, dropped or closed."""

    def test_an_error_is_the_tests(self):
        work = Failing(OperationalError("deadlock"))
        with self.assertRaises(OperationalError):
            Link("default", "test").run(work)
        self.assertEqual(work.calls, 1)
        self.assertTrue(connection.in_atomic_block)

    def test_closing_leaves_it_open(self):
        Link("default", "test").close()
        Group.objects.create(name="still there")


class DiscardTests(TransactionTestCase):
    def test_in_whatever_state(self):
        def leave_open():
            transaction.atomic().__enter__()
            Group.objects.create(name="left over")

        def autocommit_off():
            transaction.set_autocommit(False)

        def closed_below():
            connection.ensure_connection()
            connection.connection.close()

        for state in (leave_open, autocommit_off, closed_below, connection.close):
            with self.subTest(state.__name__):
                state()
                discard("default")
                self.assertTrue(connection.get_autocommit())
                self.assertFalse(connection.in_atomic_block)
                self.assertFalse(Group.objects.exists())
