"""Enqueueing as requests, threads and coroutines do it: a job exists if its transaction commits."""

from unittest import mock

from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, connection, transaction
from django.http import HttpResponse
from django.test import TransactionTestCase, override_settings
from django.urls import path

from django_nobroker import Queue, QueueError
from django_nobroker.models import Job

from .elsewhere import elsewhere

queue = Queue("requests")
seen_outside = []


def count():
    return Job.objects.count()


def slow_view(request):
    with transaction.atomic():
        queue.enqueue("welcome")
    seen_outside.append(elsewhere(count))
    return HttpResponse("signed up")


def failing_view(request):
    with transaction.atomic():
        queue.enqueue("welcome")
    raise LookupError("after the inner block")


urlpatterns = [path("slow/", slow_view), path("failing/", failing_view)]


@override_settings(ROOT_URLCONF=__name__)
class RequestTests(TransactionTestCase):
    def setUp(self):
        requests = mock.patch.dict(connection.settings_dict, ATOMIC_REQUESTS=True)
        requests.start()
        self.addCleanup(requests.stop)
        seen_outside.clear()

    def test_job_appears_with_the_commit_of_the_response(self):
        self.assertEqual(self.client.get("/slow/").status_code, 200)
        self.assertEqual(seen_outside, [0])
        self.assertEqual(elsewhere(count), 1)

    def test_failed_request_leaves_no_job(self):
        with self.assertRaises(LookupError):
            self.client.get("/failing/")
        self.assertEqual(elsewhere(count), 0)


class TransactionTests(TransactionTestCase):
    def test_rolled_back_savepoint_takes_only_its_own_jobs(self):
        with transaction.atomic():
            queue.enqueue("outer")
            try:
                with transaction.atomic():
                    queue.enqueue("inner")
                    queue.enqueue("inner", job_id="inner")
                    queue.enqueue_many(["inner"] * 3)
                    raise LookupError
            except LookupError:
                pass
            queue.enqueue("later", job_id="inner")
        self.assertEqual([job.payload for job in queue.list_jobs()], ["outer", "later"])

    def test_failed_insert_takes_the_whole_transaction(self):
        """Without its table, as without the right to it."""
        group = Group.objects.create(name="before")
        with connection.schema_editor() as editor:
            editor.alter_db_table(Job, "nobroker_job", "nobroker_away")
        try:
            for call in (
                lambda: queue.enqueue(0),
                lambda: queue.enqueue(0, job_id="k"),
                lambda: queue.enqueue_many([0, 1]),
            ):
                with self.assertRaises(DatabaseError), transaction.atomic():
                    Group.objects.filter(pk=group.pk).update(name="after")
                    call()
        finally:
            with connection.schema_editor() as editor:
                editor.alter_db_table(Job, "nobroker_away", "nobroker_job")
        group.refresh_from_db()
        self.assertEqual(group.name, "before")
        queue.enqueue(0)

    def test_loop_in_one_transaction(self):
        with transaction.atomic():
            for number in range(50):
                queue.enqueue({"id": number})
            self.assertEqual(elsewhere(count), 0)
        self.assertEqual([job.payload["id"] for job in queue.list_jobs()], list(range(50)))

    def test_thread_inside_a_transaction_commits_by_itself(self):
        if connection.vendor == "sqlite":
            self.skipTest("SQLite has one writer: the thread would wait for this transaction")
        with self.assertRaises(LookupError), transaction.atomic():
            queue.enqueue("rolled back")
            elsewhere(queue.enqueue, "its own")
            raise LookupError
        self.assertEqual([job.payload for job in queue.list_jobs()], ["its own"])

    def test_rolled_back_key_is_free(self):
        with self.assertRaises(LookupError), transaction.atomic():
            self.assertTrue(queue.enqueue(0, job_id="k").created)
            raise LookupError
        self.assertTrue(queue.enqueue(0, job_id="k").created)

    def test_without_autocommit(self):
        transaction.set_autocommit(False)
        try:
            queue.enqueue(0)
            queue.enqueue(0, job_id="k")
            queue.enqueue_many([1, 2])
            self.assertEqual(elsewhere(count), 0)
            transaction.rollback()
            self.assertEqual(elsewhere(count), 0)
            queue.enqueue(0, job_id="k")
            transaction.commit()
        finally:
            transaction.set_autocommit(True)
        self.assertEqual(elsewhere(count), 1)


class AsyncTests(TransactionTestCase):
    def test_async_variants(self):
        async def view():
            job = await queue.aenqueue({"n": 1}, job_id="k", priority=2)
            again = await queue.aenqueue({"n": 2}, job_id="k")
            many = await queue.aenqueue_many([1, 2, 3], delay=60)
            return job, again, many

        job, again, many = async_to_sync(view)()
        self.assertEqual((again.id, again.created), (job.id, False))
        self.assertEqual([queue.get(id=job.id).payload for job in many], [1, 2, 3])

    def test_sync_variants_name_the_async_ones(self):
        async def view():
            for call, name in ((queue.enqueue, "aenqueue"), (queue.enqueue_many, "aenqueue_many")):
                with self.assertRaisesMessage(SynchronousOnlyOperation, name):
                    call([0])

        async_to_sync(view)()
        self.assertEqual(count(), 0)

    def test_transaction_around_both(self):
        @sync_to_async
        def sign_up(fail):
            with transaction.atomic():
                Group.objects.create(name=f"{fail}")
                async_to_sync(queue.aenqueue)(fail)
                if fail:
                    raise LookupError

        async def view():
            await sign_up(False)
            with self.assertRaises(LookupError):
                await sign_up(True)

        async_to_sync(view)()
        self.assertEqual([job.payload for job in queue.list_jobs()], [False])
        self.assertEqual(Group.objects.count(), 1)


class RefusedLeaseTests(TransactionTestCase):
    def test_leasing_inside_a_transaction_changes_nothing(self):
        queue.enqueue(0)
        with transaction.atomic():
            for call in (queue.lease, queue.lease_one):
                with self.assertRaisesMessage(QueueError, "inside a transaction"):
                    call()
            queue.enqueue(1)
        self.assertEqual(queue.stats().ready, 2)
        self.assertEqual(len(queue.lease(2)), 2)
