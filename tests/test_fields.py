"""Instants in UTC whatever the settings say, and text compared byte for byte."""

from datetime import UTC, datetime, timedelta, timezone
from unittest import skipUnless

from django.db import connection
from django.test import SimpleTestCase, TestCase, override_settings

from django_nobroker import Queue
from django_nobroker.fields import UTCDateTimeField
from django_nobroker.models import Job, WorkerProcess

from .rows import alter

WHEN = datetime(2030, 6, 1, 12, 30, 15, 250_000, tzinfo=UTC)


def stored(job):
    """Return the instant in a row as the database itself counts it, in seconds since 1970."""
    forms = {
        "postgresql": "EXTRACT(EPOCH FROM available_at)",
        "mysql": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', available_at) / 1000000.0",
        "sqlite": "(julianday(available_at) - julianday('1970-01-01')) * 86400.0",
    }
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {forms[connection.vendor]} FROM nobroker_job WHERE id = %s", [job.pk]
        )
        return float(cursor.fetchone()[0])


class UTCDateTimeTests(TestCase):
    settings_to_try = (
        {"USE_TZ": True, "TIME_ZONE": "UTC"},
        {"USE_TZ": True, "TIME_ZONE": "Asia/Shanghai"},
        {"USE_TZ": False, "TIME_ZONE": "Asia/Shanghai"},
        {"USE_TZ": False, "TIME_ZONE": "America/New_York"},
    )

    def assertRoundTrip(self, value, wanted):
        job = Queue().enqueue({})
        alter(job, available_at=value)
        self.assertEqual(Job.objects.get(pk=job.pk).available_at, wanted)
        self.assertEqual(Job.objects.get(pk=job.pk).available_at.tzinfo, UTC)
        self.assertAlmostEqual(stored(job), wanted.timestamp(), delta=0.01)
        self.assertTrue(Job.objects.filter(pk=job.pk, available_at=value).exists())

    def test_an_aware_instant(self):
        ahead = timezone(timedelta(hours=5, minutes=30))
        for given in self.settings_to_try:
            with self.subTest(**given), self.settings(**given):
                self.assertRoundTrip(WHEN, WHEN)
                self.assertRoundTrip(WHEN.astimezone(ahead), WHEN)

    @override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai")
    def test_a_naive_instant_is_of_the_projects_zone(self):
        naive = datetime(2030, 6, 1, 20, 30)  # noqa: DTZ001
        self.assertRoundTrip(naive, datetime(2030, 6, 1, 12, 30, tzinfo=UTC))

    @override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin")
    def test_both_hours_of_the_night_when_clocks_go_back(self):
        for hour in (0, 1):
            when = datetime(2026, 10, 25, hour, 30, tzinfo=UTC)
            with self.subTest(hour=hour):
                self.assertRoundTrip(when, when)

    def test_reading_by_values_and_by_instance_is_the_same(self):
        job = Queue().enqueue({})
        alter(job, available_at=WHEN)
        for given in self.settings_to_try:
            with self.subTest(**given), self.settings(**given):
                found = Job.objects.values_list("available_at", flat=True).get(pk=job.pk)
                self.assertEqual(found, WHEN)


class PreparationTests(SimpleTestCase):
    def test_none_stays_none(self):
        self.assertIsNone(UTCDateTimeField(null=True).get_db_prep_value(None, connection))


class BytewiseTests(TestCase):
    def test_keys_that_collations_take_for_one(self):
        keys = ["key", "Key", "KEY", "kéy", "ke\u0301y", "key ", " key", "key\t", "ß", "ss", "𝐤ey"]
        jobs = [Queue().enqueue(key, job_id=key) for key in keys]
        self.assertEqual(len({job.id for job in jobs}), len(keys))
        for key in keys:
            with self.subTest(key=key):
                self.assertEqual(Queue().get(key).payload, key)

    def test_they_sort_by_bytes(self):
        for key in ("b", "B", "a", "é", "_"):
            Queue().enqueue({}, job_id=key)
        found = Job.objects.order_by("job_id").values_list("job_id", flat=True)
        self.assertEqual(list(found), ["B", "_", "a", "b", "é"])

    def test_queues_differ_by_case(self):
        Queue("emails").enqueue({})
        self.assertEqual(Queue("Emails").stats().total, 0)

    def test_four_bytes_in_every_text(self):
        WorkerProcess.objects.create(identity="\U0001f600", name="\U0001f600", queues="\U0001f600")
        self.assertEqual(WorkerProcess.objects.get().queues, "\U0001f600")

    @skipUnless(connection.vendor == "sqlite", "other databases refuse such bytes")
    def test_bytes_that_are_no_text(self):
        job = Queue().enqueue({}, job_id="key")
        with connection.cursor() as cursor:
            cursor.execute("UPDATE nobroker_job SET payload = CAST(x'22ff22' AS TEXT)")
            cursor.execute("UPDATE nobroker_job SET subject = CAST(x'ff' AS TEXT)")
        [found] = Queue().list_jobs()
        self.assertEqual(
            (found.pk, found.payload_text, found.subject), (job.pk, '"\\xff"', "\\xff")
        )
