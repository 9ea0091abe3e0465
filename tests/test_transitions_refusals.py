"""enqueue refuses what no job may be before its first statement."""

from datetime import UTC, datetime, timedelta, timezone

from django.contrib.auth.models import User
from django.db import transaction
from django.test import TestCase, override_settings
from django.utils.timezone import now

from django_nobroker import Queue, QueueError, SerializationError
from django_nobroker.models import Job

TOO_MANY = "x" * (8 * 1024 * 1024)


class BadInputTests(TestCase):
    """A refusal of the named class, with nothing written and the transaction as it was."""

    def assertRefused(self, error, *args, **terms):
        for enqueue in (Queue().enqueue, lambda value, **t: Queue().enqueue_many([1, value], **t)):
            with self.subTest(enqueue=enqueue, **{k: str(v)[:40] for k, v in terms.items()}):
                with transaction.atomic():
                    user = User.objects.create(username="ann")
                    with self.assertNumQueries(0), self.assertRaises(error):
                        enqueue(*args or ({},), **terms)
                    self.assertEqual(Job.objects.count(), 0)
                self.assertEqual(User.objects.filter(pk=user.pk).delete()[0], 1)

    def test_payloads(self):
        for value in (
            {1},
            b"x",
            float("nan"),
            float("inf"),
            (1,),
            {1: 2},
            object(),
            now(),
            TOO_MANY,
        ):
            self.assertRefused(SerializationError, value)

    def test_priorities(self):
        for priority in (-101, 101, 10**30, 1.0, "1", None, True, float("nan")):
            self.assertRefused(QueueError, priority=priority)

    def test_delays(self):
        for delay in (10**12, 10**400, float("nan"), float("inf"), "5", None, True, timedelta.max):
            self.assertRefused(QueueError, delay=delay)

    def test_times(self):
        for when in (
            datetime(9999, 12, 31, tzinfo=UTC), datetime.max.replace(tzinfo=UTC), "2030-01-01", 5,
            datetime(2030, 1, 1),  # noqa: DTZ001
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        ):  # fmt: skip
            self.assertRefused(QueueError, run_after=when)
        self.assertRefused(QueueError, delay=5, run_after=now())

    @override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
    def test_naive_times_at_the_ends(self):
        self.assertRefused(QueueError, run_after=datetime.max)  # noqa: DTZ901
        Queue().enqueue({}, run_after=datetime.min)  # noqa: DTZ901
        self.assertEqual(Queue().stats().ready, 1)

    def test_attempts(self):
        for attempts in (0, -1, 32_768, 1.5, "3", True):
            self.assertRefused(QueueError, max_attempts=attempts)

    def test_subjects(self):
        for subject in ("", "x" * 191, "\x00", "\ud800", 5, b"x"):
            self.assertRefused(QueueError, subject=subject)

    def test_keys(self):
        for key in ("", "x" * 191, "x" * 300, "x" * 5000, "a\x00b", "\ud800", 5, b"x", True):
            with (
                self.subTest(key=str(key)[:10]),
                self.assertNumQueries(0),
                self.assertRaisesMessage(QueueError, "job_id"),
            ):
                Queue().enqueue({}, job_id=key)
        self.assertEqual(Job.objects.count(), 0)

    def test_what_is_wrong_with_the_last_of_many_stops_all(self):
        with self.assertRaisesMessage(SerializationError, "payloads[999]['a']"):
            Queue().enqueue_many([*range(999), {"a": {1}}])
        self.assertEqual(Job.objects.count(), 0)
