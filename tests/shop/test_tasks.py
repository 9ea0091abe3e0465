"""The page of Django's documentation on tasks, worked through in the shop.

https://docs.djangoproject.com/en/6.1/topics/tasks/, section by section.
"""

from datetime import datetime
from functools import partial
from unittest import skipUnless

from django.core import mail
from django.db import transaction
from django.test import TestCase, TransactionTestCase

from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from django_nobroker.testing import JobAssertions, run_due
from tests.shop.scene import Shop

if SUPPORTED:
    from django.tasks import Task, TaskResultStatus, default_task_backend, task_backends

    from testproject.shop.tasks import add_to_order, email_users
    from tests.shop.task_page import double_dictionary, my_task, process_data

MAIL = {
    "emails": ["user@example.com"],
    "subject": "You have a message",
    "message": "Hello there!",
}


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class PageTests(JobAssertions, Shop, TestCase):
    def test_retrieving_backends(self):
        self.assertEqual(task_backends["default"], default_task_backend)

    def test_defining_tasks(self):
        self.assertIsInstance(email_users, Task)
        self.assertEqual((email_users.priority, email_users.queue_name), (2, "newsletter"))

    def test_modifying_tasks(self):
        self.assertEqual(email_users.using(priority=10).priority, 10)
        self.assertEqual(email_users.priority, 2)
        email_users.using(priority=10).enqueue(**MAIL)
        self.assertEqual(Job.objects.get().priority, 10)

    def test_enqueueing_tasks_and_their_results(self):
        result = email_users.enqueue(**MAIL)
        self.assertEnqueued(email_users, kwargs=MAIL, count=1)
        self.assertEqual(mail.outbox, [])
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            _ = result.return_value
        with self.assertLogs("testproject.shop.tasks", "DEBUG") as log:
            run_due()
        self.assertIn(f"Attempt 1, task result {result.id}.", log.output[0])
        self.assertEqual(mail.outbox[0].to, MAIL["emails"])
        self.assertEqual(result.status, TaskResultStatus.READY)
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual(result.return_value, 1)
        self.assertEqual(email_users.get_result(result.id), result)
        self.assertEqual(default_task_backend.get_result(result.id), result)

    async def test_the_same_in_async_code(self):
        result = await email_users.aenqueue(**MAIL)
        found = await email_users.aget_result(result.id)
        await found.arefresh()
        self.assertEqual(await default_task_backend.aget_result(result.id), result)

    def test_arguments_must_be_json(self):
        with self.assertRaises(TypeError):
            process_data.enqueue(datetime.now())  # noqa: DTZ005 - as the page has it
        self.assertNothingEnqueued()

    def test_a_tuple_becomes_a_list(self):
        result = double_dictionary.enqueue((1, 2, 3))
        Job.objects.update(max_attempts=1)
        run_due()
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        # Python 3.14 says which type cannot be used.
        self.assertIn("TypeError: ", result.errors[0].traceback)
        self.assertIn("unhashable type: 'list'", result.errors[0].traceback)

    def test_errors(self):
        result = my_task.enqueue(order=0)
        Job.objects.update(max_attempts=1)
        run_due()
        result.refresh()
        with self.assertRaisesMessage(ValueError, "Task failed"):
            _ = result.return_value
        self.assertEqual(result.errors[0].exception_class.__name__, "DoesNotExist")
        self.assertIn("Traceback (most recent call last)", result.errors[0].traceback)

    def test_exactly_once(self):
        order, _ = self.order(7)
        line = order.lines.create(product=self.product(), quantity=3, price="2.40")
        result = add_to_order.enqueue(line.pk, 2)
        run_due()
        result.refresh()
        line.refresh_from_db()
        self.assertEqual((result.return_value, line.quantity), (5, 5))


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class TransactionTests(Shop, TransactionTestCase):
    """No on_commit() is needed, and none does harm."""

    def test_in_the_same_transaction(self):
        with transaction.atomic():
            order, _ = self.order(8)
            result = my_task.enqueue(order=order.pk)
        run_due()
        result.refresh()
        self.assertEqual(result.return_value, order.pk)

    def test_rolled_back_with_it(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            order, _ = self.order(8)
            my_task.enqueue(order=order.pk)
            _ = 1 / 0
        self.assertFalse(Job.objects.filter(task__endswith="my_task").exists())

    def test_as_the_page_has_it(self):
        with transaction.atomic():
            order, _ = self.order(8)
            transaction.on_commit(partial(my_task.enqueue, order=order.pk))
        stats = run_due("default")
        self.assertEqual(stats.failed, 0)
        self.assertEqual(Job.objects.get(task__endswith="my_task").state, "done")
