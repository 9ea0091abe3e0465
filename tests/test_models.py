"""The tables as a reader meets them."""

from asgiref.sync import async_to_sync
from django.apps import apps
from django.db import connection, models
from django.db.models.expressions import DatabaseDefault
from django.test import SimpleTestCase, TestCase
from django.utils.connection import ConnectionDoesNotExist

from django_nobroker import Queue, SerializationError
from django_nobroker.models import Attempt, Job, QueueControl, State

from .rows import alter, bring_forward, expire, insert


class SchemaTests(SimpleTestCase):
    def test_all_tables_carry_the_name(self):
        tables = {model._meta.db_table for model in apps.get_app_config("nobroker").get_models()}
        self.assertEqual(
            tables,
            {
                f"nobroker_{name}"
                for name in ("job", "attempt", "queue", "worker", "minute", "meta")
            },
        )

    def test_every_column_but_the_payload_has_a_default_or_may_be_null(self):
        for field in Job._meta.concrete_fields:
            if field.name not in {"id", "payload_text"}:
                with self.subTest(field=field.name):
                    self.assertTrue(field.has_db_default() or field.null)

    def test_no_attempt_holds_its_job_back(self):
        self.assertFalse(Attempt._meta.get_field("job").db_constraint)


class RawDefaultsTests(TestCase):
    def test_a_queue_and_a_payload_are_enough(self):
        insert('{"to": 1}', queue="emails")
        job = Queue("emails").get(id=Job.objects.get().pk)
        self.assertEqual((job.state, job.payload), ("ready", {"to": 1}))
        self.assertEqual((job.priority, job.attempts, job.max_attempts), (0, 0, 5))
        self.assertEqual((job.fence, job.lease_losses, job.snoozes), (0, 0, 0))
        self.assertEqual((job.task, job.backend, job.leased_by, job.error_class), ("", "", "", ""))
        self.assertIsNone(job.job_id or job.subject or job.last_error or job.result)
        self.assertIsNone(job.finished_at or job.started_at or job.lease_expires_at)

    def test_the_payload_has_no_default(self):
        with self.assertRaises(Exception), connection.cursor() as cursor:  # noqa: B017
            cursor.execute("INSERT INTO nobroker_job (queue) VALUES ('emails')")

    def test_ids_are_never_used_again(self):
        first = Queue().enqueue({})
        Queue().purge()
        self.assertGreater(Queue().enqueue({}).id, first.id)


class JobTests(TestCase):
    def test_payload_is_decoded_once_and_again_when_the_text_changes(self):
        job = Queue().enqueue({"a": 1})
        self.assertIs(job.payload, job.payload)
        job.payload_text = "[2]"
        self.assertEqual(job.payload, [2])

    def test_a_payload_of_null_is_a_payload(self):
        self.assertIsNone(Queue().enqueue(None).payload)

    def test_a_broken_payload_says_whose_it_is(self):
        insert("{", job_id="key")
        job = Queue().get("key")
        with self.assertRaisesMessage(SerializationError, str(job)):
            job.payload  # noqa: B018
        self.assertEqual(job.payload_text, "{")

    def test_names(self):
        job = Queue("emails").enqueue({}, job_id="key")
        self.assertEqual(str(job), f"job {job.id} (key) in queue emails")
        self.assertEqual(str(QueueControl(queue="emails")), "queue emails, paused")

    def test_what_the_database_chose_is_there_to_read(self):
        job = Queue().enqueue({})
        for field in Job._meta.concrete_fields:
            with self.subTest(field=field.name):
                value = getattr(job, field.attname)
                self.assertNotIsInstance(value, DatabaseDefault | models.Expression)


class Astray:
    """A router that sends readers where there is no database."""

    def db_for_read(self, model, **hints):
        return "nowhere"


class Refusing:
    def db_for_read(self, model, **hints):
        raise AssertionError("The router is not to be asked.")


class RoutedTests(TestCase):
    """A job is read again where it came from, whatever a router says of readers."""

    routers = (Astray, Refusing)

    def setUp(self):
        self.job = Queue().enqueue({"to": 1})

    def routed_by(self, router):
        return self.settings(DATABASE_ROUTERS=[f"{__name__}.{router.__name__}"])

    def test_what_was_not_loaded(self):
        [held] = Queue().lease()
        for router in self.routers:
            job = Job.objects.only("id").get()
            held.__dict__.pop("result", None)
            with self.subTest(router=router.__name__), self.routed_by(router):
                self.assertEqual(job.payload, {"to": 1})
                self.assertIsNone(held.result)

    def test_all_of_it(self):
        for priority, router in enumerate(self.routers, 1):
            alter(self.job, priority=priority)
            with self.subTest(router=router.__name__), self.routed_by(router):
                self.job.refresh_from_db()
                self.assertEqual(self.job.priority, priority)
                self.job.refresh_from_db(fields=["state"])
                async_to_sync(self.job.arefresh_from_db)()

    def test_elsewhere_if_it_is_asked_to(self):
        with self.assertRaises(ConnectionDoesNotExist):
            self.job.refresh_from_db(using="nowhere")


class QuerySetTests(TestCase):
    def test_each_finds_its_own(self):
        due, later = Queue().enqueue(1), Queue().enqueue(2, delay=3600)
        Queue().enqueue(3, priority=9)
        [held] = Queue().lease()
        Queue().enqueue(4, priority=9)
        [expired] = Queue().lease()
        expire(expired)
        jobs = Job.objects
        self.assertEqual(list(jobs.due()), [due])
        self.assertEqual(list(jobs.delayed()), [later])
        self.assertEqual(list(jobs.expired()), [expired])
        self.assertEqual(list(jobs.dead()), [])
        self.assertEqual(jobs.in_queue("default").count(), 4)
        self.assertEqual(State.LEASED, jobs.get(pk=held.pk).state)

    def test_what_was_delayed_becomes_due(self):
        job = Queue().enqueue({}, delay=3600)
        bring_forward(job)
        self.assertEqual(list(Job.objects.due()), [job])

    def test_the_newest_dead_letter_is_first(self):
        jobs = [Queue().enqueue(n) for n in range(3)]
        for job, minute in zip(jobs, (1, 3, 2), strict=True):
            alter(job, state="dead", finished_at=f"2026-01-01T00:0{minute}:00Z")
        self.assertEqual([job.pk for job in Job.objects.dead()], [jobs[n].pk for n in (1, 2, 0)])
