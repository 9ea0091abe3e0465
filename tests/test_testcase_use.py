"""The queue inside a user's own tests: enqueue, work, fail and requeue, with nothing special."""

from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.utils import IntegrityError
from django.test import TestCase, TransactionTestCase, override_settings

from django_nobroker import Queue, Worker, formats
from django_nobroker.exceptions import LeaseInTransaction
from django_nobroker.models import FORMAT_VERSION, Format
from tests.rows import bring_forward
from tests.work import Quiet, fresh, run, states


def greet(job):
    """Leave a group behind, so that it can be seen that the job has run."""
    Group.objects.create(name=job.payload["name"])


async def greet_async(job):
    await Group.objects.acreate(name=job.payload["name"])


def fail(job):
    raise ValueError("no luck")


async def fail_async(job):
    raise ValueError("no luck")


def sign_up(name):
    """Do what a view does: a user and its job in one transaction."""
    with transaction.atomic():
        user = User.objects.create_user(name)
        return user, Queue("mail").enqueue({"name": f"hello {name}"}, subject=user)


class Uses(Quiet):
    """The cases: the same in every kind of test class."""

    def work(self, handler):
        return run(Worker("mail", handler, idle_timeout=0, poll_interval=0.01))

    def test_enqueued_it_is_there_to_be_asserted(self):
        user, job = sign_up("ada")
        self.assertEqual(Queue("mail").stats().ready, 1)
        self.assertEqual(Queue("mail").get(id=job.id).payload, {"name": "hello ada"})
        self.assertEqual(job.subject, f"auth.user:{user.pk}")

    def test_worked(self):
        for handler in (greet, greet_async):
            with self.subTest(handler=handler.__name__):
                _, job = sign_up(handler.__name__)
                self.assertEqual(self.work(handler).succeeded, 1)
                self.assertEqual(states(job), ["done"])
                self.assertTrue(Group.objects.filter(name=f"hello {handler.__name__}").exists())

    def test_failed_and_requeued(self):
        for handler, mended in ((fail, greet), (fail_async, greet_async)):
            with self.subTest(handler=handler.__name__):
                job = Queue("mail", max_attempts=1).enqueue({"name": handler.__name__})
                self.assertEqual(self.work(handler).dead, 1)
                [letter] = Queue("mail").dlq()
                self.assertEqual(letter.last_error, "ValueError: no luck")
                self.assertEqual(Queue("mail").requeue_dead(), 1)
                self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 0))
                self.assertEqual(self.work(mended).succeeded, 1)
                self.assertEqual(states(job), ["done"])

    def test_by_hand(self):
        queue = Queue("mail")
        job = queue.enqueue(1)
        leased = queue.lease_one()
        self.assertEqual(leased.pk, job.pk)
        queue.nack(leased, error="no luck", delay=0)
        bring_forward(job)
        queue.ack(queue.lease_one())
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("done", 2))

    def test_the_connection_is_as_it_was(self):
        sign_up("ada")
        before = connection.in_atomic_block, connection.get_autocommit()
        self.work(greet)
        Queue("mail", max_attempts=1).enqueue(1)
        self.work(fail)
        self.assertEqual((connection.in_atomic_block, connection.get_autocommit()), before)
        self.assertFalse(connection.needs_rollback)
        self.assertEqual(User.objects.count(), 1)

    def test_a_broken_handler_spares_the_test(self):
        def twice(job):
            Group.objects.create(name="one")
            Group.objects.create(name="one")

        job = Queue("mail", max_attempts=1).enqueue(1)
        self.work(twice)
        self.assertEqual(states(job), ["dead"])
        self.assertIn("IntegrityError", fresh(job).last_error)
        Group.objects.create(name="two")

    def test_an_error_that_a_handler_swallows_spares_the_test(self):
        def swallow(job):
            Group.objects.create(name="one")
            try:
                with transaction.atomic():
                    Group.objects.create(name="one")
            except IntegrityError:
                pass

        job = Queue("mail").enqueue(1)
        self.work(swallow)
        self.assertEqual(states(job), ["done"])
        self.assertTrue(Group.objects.filter(name="one").exists())

    def test_inside_a_transaction_of_ones_own_it_is_refused(self):
        with transaction.atomic():
            User.objects.create_user("ada")
            with self.assertRaises(LeaseInTransaction):
                self.work(greet)
            with self.assertRaises(LeaseInTransaction):
                Queue("mail").lease()
        self.assertEqual(User.objects.count(), 1)


class InTestCase(Uses, TestCase):
    def test_nothing_waits_for_on_commit(self):
        with self.captureOnCommitCallbacks() as callbacks:
            sign_up("ada")
            self.assertEqual(self.work(greet).succeeded, 1)
        self.assertEqual(callbacks, [])


class InTransactionTestCase(Uses, TransactionTestCase):
    pass


class SetUpOnceTests(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.job = Queue("mail").enqueue({"name": "once"})

    def test_a_job_from_the_class(self):
        stats = run(Worker("mail", greet, idle_timeout=0))
        self.assertEqual(stats.succeeded, 1)

    def test_is_ready_again_for_the_next_test(self):
        self.assertEqual(states(self.job), ["ready"])


class AfterFlushTests(Uses, TransactionTestCase):
    """Every table has been emptied by the test before, the version of the tables with them."""

    def setUp(self):
        super().setUp()
        self._fixture_teardown()

    def test_the_worker_takes_a_missing_version_as_current(self):
        Format.objects.all().delete()
        self.assertEqual(formats.version("default"), FORMAT_VERSION)


@override_settings(NOBROKER={"QUEUES": {"mail": {"HANDLER": "tests.test_testcase_use.greet"}}})
class AsyncTestTests(TestCase):
    async def test_enqueued_from_async_code(self):
        job = await Queue("mail").aenqueue({"name": "async"})
        many = await Queue("mail").aenqueue_many([{"name": "b"}, {"name": "c"}])
        self.assertEqual(len({job.id, *(one.id for one in many)}), 3)

    def test_worked_after_async_code(self):
        async_to_sync(Queue("mail").aenqueue)({"name": "async"})
        self.assertEqual(run(Worker("mail", idle_timeout=0)).succeeded, 1)
        self.assertTrue(Group.objects.filter(name="async").exists())
