"""Which function runs a job, and what happens while it cannot be found."""

import functools
import importlib
import shutil
import sys
import tempfile
from pathlib import Path

from django.test import SimpleTestCase, override_settings

from django_nobroker import policy
from django_nobroker.exceptions import HandlerNotFound
from django_nobroker.worker.handlers import Handler, Handlers
from tests.work import Quiet


def plain(job): ...


async def asynchronous(job): ...


class Callable:
    def __call__(self, job): ...


class AsyncCallable:
    async def __call__(self, job): ...

    async def method(self, job): ...


def settings_for(**handlers):
    return override_settings(
        NOBROKER={"QUEUES": {name: {"HANDLER": path} for name, path in handlers.items()}}
    )


class HandlerTests(SimpleTestCase):
    def test_kinds(self):
        for function, is_async in (
            (plain, False),
            (asynchronous, True),
            (functools.partial(plain), False),
            (functools.partial(asynchronous), True),
            (Callable(), False),
            (AsyncCallable(), True),
            (AsyncCallable().method, True),
            (print, False),
        ):
            with self.subTest(function=repr(function)[:40]):
                self.assertIs(Handler.of(function).is_async, is_async)

    def test_paths(self):
        for path in ("tests.test_worker_handlers.plain", "tests.test_worker_handlers:plain"):
            with self.subTest(path=path):
                found = Handler.of(path)
                self.assertIs(found.function, plain)
                self.assertEqual(found.name, path)

    def test_a_method_of_a_class(self):
        found = Handler.of("tests.test_worker_handlers:AsyncCallable.method")
        self.assertIs(found.function, AsyncCallable.method)

    def test_names_for_people(self):
        self.assertEqual(Handler.of(plain).name, "tests.test_worker_handlers.plain")
        self.assertIn("partial", Handler.of(functools.partial(plain)).name)
        self.assertIn("Callable", Handler.of(Callable()).name)

    def test_carries_its_policy(self):
        handler = Handler.of(policy(dead_on=KeyError)(lambda job: None))
        self.assertFalse(handler.policy.retries(KeyError()))

    def test_paths_that_lead_nowhere(self):
        for path in (
            "",
            ".",
            "..",
            ":",
            "plain",
            "tests.",
            ".plain",
            "tests.test_worker_handlers",
            "tests.test_worker_handlers.nosuch",
            "tests.test_worker_handlers:Callable.nosuch",
            "nosuch.module.function",
            "tests.nosuch.function",
        ):
            with self.subTest(path=path), self.assertRaises(HandlerNotFound):
                Handler.of(path)

    def test_what_is_no_function(self):
        for value in (5, None, "tests.test_worker_handlers.__doc__"):
            with self.subTest(value=value), self.assertRaises(HandlerNotFound):
                Handler.of(value)


def of_queue(handlers, queue):
    """Ask as a worker does: it asks again once it has looked."""
    handlers.of_queue(queue)
    handlers.look_up()
    return handlers.of_queue(queue)


class HandlersTests(Quiet, SimpleTestCase):
    def test_the_workers_own_comes_first(self):
        with settings_for(a="tests.test_worker_handlers.asynchronous"):
            self.assertIs(Handlers(plain).of_queue("a").function, plain)
            self.assertIs(of_queue(Handlers(), "a").function, asynchronous)

    def test_none_is_imported_before_it_is_looked_up(self):
        handlers = Handlers()
        with settings_for(a="tests.test_worker_handlers.asynchronous"):
            self.assertIsNone(handlers.of_queue("a"))
            self.assertTrue(handlers.look_up())
            self.assertIsNotNone(handlers.of_queue("a"))
            self.assertFalse(handlers.look_up())

    def test_one_that_cannot_be_imported_is_tried_again(self):
        with tempfile.TemporaryDirectory() as directory:
            sys.path.insert(0, directory)
            self.addCleanup(sys.path.remove, directory)
            self.addCleanup(sys.modules.pop, "nobroker_deploy", None)
            module = Path(directory, "nobroker_deploy.py")
            handlers = Handlers()
            with settings_for(a="nobroker_deploy.handle"):
                with self.assertLogs("django_nobroker", "ERROR") as log:
                    for text in (None, "def handle(:", "raise SystemExit(3)", "1 / 0", "other = 1"):
                        if text is not None:
                            module.write_text(text)
                        self.forget(directory)
                        if "a" in handlers._missing:
                            handlers._missing["a"] = 0.0
                        self.assertIsNone(of_queue(handlers, "a"), text)
                self.assertEqual(len(log.output), 1)
                module.write_text("def handle(job): ...")
                self.forget(directory)
                self.assertIsNone(of_queue(handlers, "a"))
                handlers._missing["a"] = 0.0
                self.assertIsNotNone(of_queue(handlers, "a"))

    def forget(self, directory):
        """Let the next import read the file anew."""
        sys.modules.pop("nobroker_deploy", None)
        shutil.rmtree(Path(directory, "__pycache__"), ignore_errors=True)
        importlib.invalidate_caches()
