"""The NOBROKER setting: what may stand in it, and what holds for which queue."""

from datetime import timedelta

from django.core.exceptions import ImproperlyConfigured
from django.test import SimpleTestCase, override_settings

from django_nobroker import BackoffPolicy, Queue, QueueError, conf
from django_nobroker.checks import check_settings


class CurrentTests(SimpleTestCase):
    def test_without_settings_the_defaults_hold(self):
        with override_settings(NOBROKER={}):
            settings = conf.current()
        self.assertEqual(settings, conf.Settings())
        options = settings.options("any")
        self.assertEqual(options.visibility_timeout, 30)
        self.assertEqual(options.max_attempts, 5)
        self.assertEqual(options.backoff, BackoffPolicy(1.0, 2.0, 300.0, 0.5))
        self.assertEqual((options.keep_done, options.keep_dead), (86400, None))
        self.assertEqual((options.unknown_grace, options.handler), (3600, None))
        self.assertTrue(settings.notify)

    @override_settings(
        NOBROKER={
            "MAX_ATTEMPTS": 7,
            "KEEP_DONE": 0,
            "QUEUES": {"emails": {"HANDLER": "shop.jobs.send", "MAX_ATTEMPTS": 3}},
        }
    )
    def test_a_queue_has_its_own_and_the_projects_options(self):
        emails, other = conf.current().options("emails"), conf.current().options("other")
        self.assertEqual((emails.max_attempts, other.max_attempts), (3, 7))
        self.assertEqual((emails.keep_done, other.keep_done), (0, 0))
        self.assertEqual((emails.handler, other.handler), ("shop.jobs.send", None))

    def test_settings_are_read_again_when_they_change(self):
        for attempts in (2, 9):
            with override_settings(NOBROKER={"MAX_ATTEMPTS": attempts}):
                self.assertEqual(Queue("emails").options.max_attempts, attempts)
        self.assertEqual(Queue("emails").options.max_attempts, 5)

    @override_settings(
        NOBROKER={
            "VISIBILITY_TIMEOUT": timedelta(minutes=1),
            "KEEP_DONE": timedelta(days=1),
            "KEEP_DEAD": None,
            "BACKOFF": {"base": 5},
        }
    )
    def test_forms_of_values(self):
        options = conf.current().defaults
        self.assertEqual(options.visibility_timeout, 60)
        self.assertEqual((options.keep_done, options.keep_dead), (86400, None))
        self.assertEqual(options.backoff, BackoffPolicy(base=5))

    @override_settings(NOBROKER={"MAX_ATTEMPTS": 7, "QUEUES": {"emails": {"MAX_ATTEMPTS": 3}}})
    def test_the_queue_object_beats_the_settings(self):
        queue = Queue("emails", max_attempts=1, visibility_timeout=timedelta(seconds=2))
        self.assertEqual(queue.options.max_attempts, 1)
        self.assertEqual(queue.options.visibility_timeout, 2)


class ProblemTests(SimpleTestCase):
    def assertProblem(self, value, wanted, *words):
        with override_settings(NOBROKER=value):
            [error] = check_settings()
            with self.assertRaises(ImproperlyConfigured) as caught:
                conf.current()
        self.assertEqual(error.id, wanted)
        self.assertTrue(error.is_serious())
        for word in words:
            self.assertIn(word, error.msg)
            self.assertIn(word, str(caught.exception))

    def test_a_good_setting_has_none(self):
        with override_settings(NOBROKER={"QUEUES": {"a.b-c_D": {}}, "NOTIFY": False}):
            self.assertEqual(check_settings(), [])

    def test_not_a_dictionary(self):
        for value in (None, [], "x"):
            with self.subTest(value=value):
                self.assertProblem(value, "nobroker.E001")

    def test_unknown_keys(self):
        self.assertProblem({"MAX_ATEMPTS": 1}, "nobroker.E002", "MAX_ATEMPTS", "MAX_ATTEMPTS")
        self.assertProblem({"HANDLERS": "a.b"}, "nobroker.E002", "HANDLERS")
        self.assertProblem({"QUEUES": {"a": {"X": 1}}}, "nobroker.E002", "['a']", "'X'")

    def test_the_projects_own_keys_are_none_of_a_queues(self):
        for key in ("DATABASE", "NOTIFY", "QUEUES"):
            with self.subTest(key=key):
                self.assertProblem({"QUEUES": {"a": {key: None}}}, "nobroker.E002", key)

    def test_impossible_values(self):
        impossible = {
            "VISIBILITY_TIMEOUT": (None, 0, -1, "30", True, float("nan"), float("inf"), 10**12),
            "MAX_ATTEMPTS": (None, 0, 32_768, 1.5, "5", True),
            "TIMEOUT": (5,),
            "UNKNOWN_GRACE": (None, -1, "x"),
            "BACKOFF": (None, 5, {"base": -1}, {"bse": 1}, {"jitter": 2}, []),
            "KEEP_DONE": (-1, "x", float("nan")),
            "KEEP_DEAD": (-1, True),
            "HANDLER": (5, "", "name", len),
        }
        for key, values in impossible.items():
            for value in values:
                with self.subTest(key=key, value=value):
                    self.assertProblem({"QUEUES": {"a": {key: value}}}, "nobroker.E003", key)

    def test_queues(self):
        self.assertProblem({"QUEUES": []}, "nobroker.E004")
        self.assertProblem({"QUEUES": {"a": "shop.jobs.send"}}, "nobroker.E004", "['a']")
        for name in ("", "a b", "a/b", "é", "x" * 129, 5, "a\n"):
            with self.subTest(name=name):
                self.assertProblem({"QUEUES": {name: {}}}, "nobroker.E005")

    def test_database_and_notify(self):
        self.assertProblem({"DATABASE": "nowhere"}, "nobroker.E006", "nowhere")
        self.assertProblem({"DATABASE": 5}, "nobroker.E006")
        self.assertProblem({"NOTIFY": 1}, "nobroker.E007")

    @override_settings(NOBROKER={"X": 1, "MAX_ATTEMPTS": 0, "QUEUES": {"": {}}})
    def test_all_of_them_are_told_at_once(self):
        self.assertEqual(
            sorted(error.id for error in check_settings()),
            ["nobroker.E002", "nobroker.E003", "nobroker.E005"],
        )

    @override_settings(NOBROKER={"MAX_ATTEMPTS": 0})
    def test_a_queue_cannot_be_used_with_them(self):
        with self.assertRaisesMessage(ImproperlyConfigured, "MAX_ATTEMPTS"):
            Queue().enqueue({})


class QueueNameTests(SimpleTestCase):
    def test_names(self):
        for name in ("a", "A-z_0.9", "." * 128, "0"):
            with self.subTest(name=name):
                self.assertEqual(conf.checked_queue_name(name), name)

    def test_what_is_none(self):
        for name in (
            "",
            "x" * 129,
            "x" * 300,
            "a b",
            "a\n",
            "é",
            "*",
            "a/b",
            "a\x00",
            None,
            5,
            b"a",
        ):
            with self.subTest(name=name), self.assertRaisesMessage(QueueError, "queue name"):
                Queue(name)
