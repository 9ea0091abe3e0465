"""What a worker is told: anything that cannot be is refused before it starts."""

from datetime import timedelta

from django.test import SimpleTestCase

from django_nobroker import Queue, QueueError, Worker
from django_nobroker.exceptions import HandlerNotFound
from django_nobroker.worker import WorkerOptions


class OptionsTests(SimpleTestCase):
    def test_defaults(self):
        options = WorkerOptions.checked()
        self.assertIsNone(options.queues)
        self.assertEqual((options.concurrency, options.poll_interval), (1, 0.1))
        self.assertIsNone(options.max_jobs)
        self.assertIsNone(options.idle_timeout)
        self.assertFalse(options.burst)

    def test_several_queues_keep_their_order(self):
        options = WorkerOptions.checked(queues=["b", "a"], exclude=["c"])
        self.assertEqual((options.queues, options.exclude), (("b", "a"), ("c",)))

    def test_no_queue_at_all(self):
        with self.assertRaisesMessage(QueueError, "at least one queue"):
            WorkerOptions.checked(queues=[])

    def test_names_that_are_none(self):
        for name in ("", "a b", "a,b", "*", "x" * 129, "é", "a\n", None, 5):
            with self.subTest(name=name):
                with self.assertRaises(QueueError):
                    WorkerOptions.checked(queues=[name])
                with self.assertRaises(QueueError):
                    WorkerOptions.checked(exclude=[name])

    def test_timedeltas_are_seconds(self):
        options = WorkerOptions.checked(
            poll_interval=timedelta(milliseconds=250),
            idle_timeout=timedelta(minutes=2),
            max_time=timedelta(hours=1),
            shutdown_timeout=timedelta(seconds=9),
        )
        self.assertEqual(
            (options.poll_interval, options.idle_timeout, options.max_time),
            (0.25, 120.0, 3600.0),
        )
        self.assertEqual(options.shutdown_timeout, 9.0)

    def test_values_out_of_range(self):
        bad = {
            "concurrency": (0, -1, 1.5, True, "2", None, 100_001),
            "poll_interval": (0, -1, float("nan"), float("inf"), "1", None, True),
            "max_jobs": (0, -1, 2.5, True, "3"),
            "max_time": (-1, float("nan"), "1"),
            "max_memory": (-1, float("inf"), "1"),
            "idle_timeout": (-0.1, float("nan"), "1", timedelta(-1)),
            "shutdown_timeout": (-1, float("nan"), "1"),
        }
        for name, values in bad.items():
            for value in values:
                with (
                    self.subTest(name=name, value=value),
                    self.assertRaisesMessage(QueueError, name),
                ):
                    WorkerOptions.checked(**{name: value})

    def test_nothing_is_a_time_too(self):
        options = WorkerOptions.checked(idle_timeout=0, max_time=0, shutdown_timeout=0)
        self.assertEqual(
            (options.idle_timeout, options.max_time, options.shutdown_timeout), (0.0, 0.0, 0.0)
        )

    def test_an_option_that_does_not_exist(self):
        with self.assertRaises(TypeError):
            WorkerOptions.checked(concurency=2)


class WorkerArgumentsTests(SimpleTestCase):
    def test_a_queue_or_its_name(self):
        for queue in ("emails", Queue("emails")):
            with self.subTest(queue=str(queue)):
                self.assertEqual(Worker(queue).options.queues, ("emails",))

    def test_a_bad_name(self):
        with self.assertRaises(QueueError):
            Worker("no name")

    def test_a_handler_that_leads_nowhere(self):
        for path in ("nowhere.at.all", "tests.work.nothing", "tests.work", "work", ""):
            with self.subTest(path=path), self.assertRaises(HandlerNotFound):
                Worker("default", path)

    def test_what_cannot_be_called(self):
        with self.assertRaisesMessage(HandlerNotFound, "not a function"):
            Worker("default", 5)

    def test_options_are_checked(self):
        for options in ({"concurrency": 0}, {"poll_interval": -1}, {"max_jobs": 0}):
            with self.subTest(options=options), self.assertRaises(QueueError):
                Worker("default", print, **options)

    def test_no_two_are_the_same(self):
        self.assertNotEqual(Worker("a").identity, Worker("a").identity)
