"""Wake-ups: told once, after the commit, and without harm when they cannot be."""

from unittest import mock, skipUnless

from django.db import DatabaseError, connection, transaction
from django.test import TransactionTestCase, override_settings
from django.test.utils import CaptureQueriesContext

from django_nobroker import Queue, sql, transitions
from django_nobroker.models import Job
from django_nobroker.transitions import notices

HAS_NOTICES = sql.dialect(connection).has_notices


def cancel_and_requeue():
    transitions.cancel(Job.objects.all())
    transitions.requeue(Job.objects.all())


class NoticeCase(TransactionTestCase):
    def setUp(self):
        self.told = []
        notices._sent.clear()
        if HAS_NOTICES:
            dialect = type(sql.dialect(connection))
            patch = mock.patch.object(dialect, "notify", self.notify)
            patch.start()
            self.addCleanup(patch.stop)

    def notify(self, connection, queues):
        self.assertFalse(connection.in_atomic_block, "told before the commit")
        self.told.append(queues)


@skipUnless(HAS_NOTICES, "only PostgreSQL has notices")
class TellTests(NoticeCase):
    def test_at_once_without_a_transaction(self):
        Queue("a").enqueue(1)
        self.assertEqual(self.told, [["a"]])

    def test_once_for_a_transaction_with_all_its_queues(self):
        with transaction.atomic():
            for number in range(50):
                Queue("ab"[number % 2]).enqueue(number)
            Queue("c").enqueue_many(range(10))
            self.assertEqual(self.told, [])
        self.assertEqual(self.told, [["a", "b", "c"]])

    def test_not_for_what_is_rolled_back(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            Queue("a").enqueue(1)
            _ = 1 / 0
        self.assertEqual(self.told, [])

    def test_a_savepoint_that_is_rolled_back_swallows_no_later_one(self):
        with transaction.atomic():
            with self.assertRaises(ZeroDivisionError), transaction.atomic():
                Queue("inner").enqueue(1)
                _ = 1 / 0
            Queue("outer").enqueue(1)
        self.assertEqual(self.told, [["outer"]])

    def test_nor_an_earlier_one(self):
        with transaction.atomic():
            Queue("outer").enqueue(1)
            with self.assertRaises(ZeroDivisionError), transaction.atomic():
                Queue("inner").enqueue(1)
                _ = 1 / 0
        [queues] = self.told
        self.assertIn("outer", queues)

    def test_each_transaction_anew(self):
        for name in "ab":
            notices._sent.clear()
            with transaction.atomic():
                Queue(name).enqueue(1)
        self.assertEqual(self.told, [["a"], ["b"]])

    def test_not_more_often_than_a_process_may(self):
        for _ in range(50):
            with mock.patch.object(notices.time, "monotonic", return_value=1000.0):
                Queue("a").enqueue(1)
        self.assertEqual(self.told, [["a"]])

    def test_a_job_that_was_there_already_is_no_news(self):
        Queue("a").enqueue(1, job_id="key")
        notices._sent.clear()
        Queue("a").enqueue(1, job_id="key")
        self.assertEqual(len(self.told), 1)

    def test_what_a_person_makes_ready(self):
        queue = Queue("a")
        queue.enqueue(1, delay=60)
        for act in (
            lambda: transitions.edit(Job.objects.all(), run_now=True),
            lambda: (
                transitions.cancel(Job.objects.all()) and transitions.requeue(Job.objects.all())
            ),
            lambda: transitions.pause("default", "a") or transitions.resume("default", "a"),
        ):
            self.told.clear()
            notices._sent.clear()
            act()
            self.assertEqual(len(self.told), 1)

    @override_settings(NOBROKER={"NOTIFY": False})
    def test_switched_off(self):
        with (
            CaptureQueriesContext(
                connection,
            ) as queries,
            transaction.atomic(),
        ):
            Queue("a").enqueue(1)
        self.assertEqual(self.told, [])
        self.assertFalse([query for query in queries if "notify" in query["sql"]])

    def test_an_error_harms_nobody(self):
        dialect = type(sql.dialect(connection))
        with mock.patch.object(dialect, "notify", side_effect=DatabaseError("no")):
            job = Queue("a").enqueue(1)
            notices._sent.clear()
            with transaction.atomic():
                Queue("a").enqueue(2)
        self.assertEqual(Queue("a").get(id=job.id), job)
        self.assertEqual(Queue("a").stats().ready, 2)

    def test_without_autocommit_workers_look_by_themselves(self):
        transaction.set_autocommit(False)
        try:
            Queue("a").enqueue(1)
            transaction.commit()
        finally:
            transaction.set_autocommit(True)
        self.assertEqual((self.told, Queue("a").stats().ready), ([], 1))


@skipUnless(not HAS_NOTICES, "the other databases have none")
class NoNoticesTests(TransactionTestCase):
    def test_cost_nothing(self):
        with transaction.atomic():
            Queue("a").enqueue(1)
            self.assertEqual(connection.run_on_commit, [])
