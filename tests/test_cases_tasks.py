"""Arguments, results and errors of tasks that are odd: the same rule on every database."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import os
import pathlib
import uuid
from unittest import skipUnless

from django.contrib.auth.models import Group
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from django_nobroker.testing import run_due
from tests.rows import insert
from tests.work import Quiet, work

if SUPPORTED:
    from django.tasks import TaskResultStatus, default_task_backend
    from django.tasks.exceptions import TaskResultMismatch

    from tests import task_samples as samples

IMMEDIATE = {"default": {"BACKEND": "django_nobroker.testing.ImmediateBackend", "QUEUES": []}}
FILE_NAME = os.fsdecode(b"\xff.txt")
PAIR = collections.namedtuple("PAIR", "left right")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int = 1


# What is given, and what a task gets.
TAKEN = (
    ((1, 2), [1, 2]),
    (PAIR(1, 2), [1, 2]),
    (collections.deque([1]), [1]),
    (range(3), [0, 1, 2]),
    (b"text", "text"),
    ({b"key": {"a": (1,)}}, {"key": {"a": [1]}}),
    (collections.Counter("aa"), {"a": 2}),
    (Colour.RED, "red"),
    (Level.LOW, 1),
    (mark_safe("<b>"), "<b>"),
    (FILE_NAME, FILE_NAME),
    ({FILE_NAME: ["\x00", "\U0001f600", "\u2028"]}, {FILE_NAME: ["\x00", "\U0001f600", "\u2028"]}),
    (2**80, 2**80),
    (-0.0, -0.0),
    (None, None),
)
REFUSED = (
    {1}, frozenset(), b"\xff", object(), Point(), Point, 1j, ..., ValueError("x"), repr,
    {1: 2}, {1.5: 2}, {None: 1}, {True: 1}, {(1, 2): 3},
    float("nan"), [float("inf")], 10**5000,
    decimal.Decimal("1.5"), uuid.UUID(int=1), pathlib.Path("/"), gettext_lazy("Yes"),
    dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.timedelta(1),
    Group(name="unsaved"), Group.objects.all(), (number for number in range(3)),
)  # fmt: skip


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class TypeTests(Quiet, TestCase):
    def immediate(self, *args, **kwargs):
        with override_settings(TASKS=IMMEDIATE):
            return samples.echo.enqueue(*args, **kwargs)

    def test_what_a_task_gets(self):
        results = [samples.echo.enqueue(given, key=given) for given, _ in TAKEN]
        self.assertEqual(run_due().succeeded, len(TAKEN))
        for result, (given, wanted) in zip(results, TAKEN, strict=True):
            with self.subTest(given=given):
                result.refresh()
                # By repr, which tells 1 from True and a str from what only is equal to it.
                told = repr([[wanted], {"key": wanted}])
                self.assertEqual(repr(result.return_value), told)
                self.assertEqual(repr(self.immediate(given, key=given).return_value), told)

    def test_what_is_refused_before_anything_is_written(self):
        for index, value in enumerate(REFUSED):
            for nested in (value, [{"a": [value]}]):
                with self.subTest(index=index, kind=type(value).__name__):
                    errors = []
                    for enqueue in (samples.echo.enqueue, self.immediate):
                        for given in ({"args": [nested]}, {"kwargs": {"key": nested}}):
                            with self.assertRaises((TypeError, ValueError)) as caught:
                                enqueue(*given.get("args", ()), **given.get("kwargs", {}))
                            errors.append(type(caught.exception))
                    self.assertEqual(errors[:2], errors[2:])
        self.assertFalse(Job.objects.exists())


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class SizeTests(Quiet, TransactionTestCase):
    def test_whole_or_refused(self):
        sizes = (70_000, 1_000_000, 4_000_000)
        results = [samples.echo.enqueue("x" * size) for size in sizes]
        self.assertEqual(work().succeeded, len(sizes))
        for result, size in zip(results, sizes, strict=True):
            result.refresh()
            self.assertTrue(result.return_value == [["x" * size], {}], size)
            self.assertTrue(default_task_backend.get_result(result.id).args == ["x" * size])
        with self.assertRaisesMessage(ValueError, "bytes of JSON"):
            samples.echo.enqueue("x" * 20_000_000)
        self.assertEqual(Job.objects.count(), len(sizes))

    def test_a_result_that_is_too_large_is_dead_at_once(self):
        result = samples.repeat.enqueue("x", 20_000_000)
        stats = work()
        result.refresh()
        self.assertEqual((stats.dead, result.status), (1, TaskResultStatus.FAILED))
        self.assertIn("bytes of JSON", result.errors[0].traceback)

    def test_an_error_of_any_size_is_cut(self):
        result = samples.fail.enqueue("x" * 8_000_000)
        Job.objects.update(max_attempts=1)
        work()
        result.refresh()
        self.assertIs(result.errors[0].exception_class, ValueError)
        self.assertLess(len(result.errors[0].traceback), 100_000)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class ErrorTests(Quiet, TestCase):
    def test_an_exception_that_holds_anything(self):
        for text in (FILE_NAME, "\x00"):
            result = samples.fail_oddly.enqueue(text)
            self.assertEqual(run_due().dead, 1)
            result.refresh()
            [error] = result.errors
            self.assertIs(error.exception_class, samples.OddError)
            self.assertIn("in fail_oddly", error.traceback)
            self.assertIn("<object object", error.traceback)
            self.assertNotIn("\x00", error.traceback)
            with self.assertRaisesMessage(ValueError, "Task failed"):
                _ = result.return_value

    def test_an_exception_whose_class_is_gone(self):
        result = samples.fail_oddly.enqueue("x")
        run_due()
        Job.objects.get().failed_attempts.update(error_class="tests.task_samples.Gone")
        result.refresh()
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.FAILED, 1))
        with self.assertRaisesMessage(ImportError, "tests.task_samples.Gone"):
            _ = result.errors[0].exception_class
        self.assertIn("OddError", result.errors[0].traceback)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class RemovedTests(Quiet, TestCase):
    """Results of a task that this release does not have any more."""

    PATHS = ("tests.task_samples.gone", "gone.module.task", "tests.broken.task", "os.system", "x")

    def test_status_arguments_and_value_are_readable(self):
        for path in self.PATHS:
            with self.subTest(path):
                result = samples.add.enqueue(1, b=2)
                run_due()
                Job.objects.filter(pk=result.id).update(task=path)
                result.refresh()
                self.assertEqual((result.is_finished, result.return_value), (True, 3))
                found = default_task_backend.get_result(result.id)
                self.assertEqual(found.task.module_path.lstrip("."), path)
                self.assertEqual((found.args, found.kwargs), ([1], {"b": 2}))
                self.assertTrue(repr(found))
                found.refresh()
                with self.assertRaises(TaskResultMismatch):
                    samples.add.get_result(result.id)

    def test_arguments_that_no_json_reader_follows(self):
        insert('{"args": [' + "[" * 90_000 + "]" * 90_000 + "]}", task="tests.task_samples.echo")
        job = Job.objects.get()
        self.assertEqual(default_task_backend.get_result(str(job.id)).args, [])
        self.assertEqual(run_due().dead, 1)
        result = default_task_backend.get_result(str(job.id))
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIn("is not JSON", result.errors[0].traceback)
