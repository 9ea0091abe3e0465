"""An exception made into text that every database can hold, whatever the exception is."""

import sys

from django.test import SimpleTestCase
from hypothesis import given
from hypothesis import strategies as st

from django_nobroker.failures import MAX_CLASS, MAX_MESSAGE, MAX_TRACEBACK, Failure, clean


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("not today")


class MuteToTheEnd(Exception):
    def __str__(self):
        raise SystemExit


class NotText(Exception):
    def __str__(self):
        return 5


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


class FailureTests(SimpleTestCase):
    def assertFits(self, failure):
        self.assertLessEqual(len(failure.error_class), MAX_CLASS)
        self.assertLessEqual(len(failure.message), MAX_MESSAGE)
        self.assertLessEqual(len(failure.traceback), MAX_TRACEBACK)
        for text in (failure.error_class, failure.message, failure.traceback):
            self.assertNotIn("\x00", text)
            text.encode()

    def test_an_exception(self):
        failure = Failure.of(raised(ValueError("no stock")))
        self.assertEqual(failure.error_class, "builtins.ValueError")
        self.assertEqual(failure.message, "ValueError: no stock")
        self.assertIn("in raised", failure.traceback)
        self.assertTrue(failure.traceback.rstrip().endswith("ValueError: no stock"))

    def test_a_text_and_nothing(self):
        self.assertEqual(Failure.of("out of paper"), Failure(message="out of paper"))
        self.assertEqual(Failure.of(None), Failure())

    def test_an_exception_without_text(self):
        self.assertEqual(Failure.of(KeyboardInterrupt()).message, "KeyboardInterrupt")

    def test_one_that_was_never_raised(self):
        self.assertEqual(Failure.of(OSError("x")).message, "OSError: x")

    def test_text_that_databases_refuse(self):
        failure = Failure.of(raised(ValueError("a\x00b\ud800c\U0001f600")))
        self.assertFits(failure)
        self.assertEqual(failure.message, "ValueError: a\\x00b\\ud800c\U0001f600")

    def test_fifty_megabytes_are_cut_with_a_mark(self):
        failure = Failure.of(raised(ValueError("x" * 50_000_000 + "the end")))
        self.assertFits(failure)
        self.assertIn("characters cut", failure.message)
        self.assertTrue(failure.message.endswith("the end"))

    def test_texts_that_raise(self):
        for error in (Mute(), MuteToTheEnd(), NotText()):
            with self.subTest(error=type(error)):
                failure = Failure.of(raised(error))
                self.assertFits(failure)
                self.assertIn(type(error).__name__, failure.error_class)
                self.assertIn("cannot be had", failure.message)

    def test_a_name_that_is_too_long_or_strange(self):
        for name in ("N" * 100_000, "A\x00B", "\ud800"):
            error = type("X", (Exception,), {"__module__": "m"})()
            type(error).__qualname__ = name
            with self.subTest(name=name[:5]):
                self.assertFits(Failure.of(error))

    def test_a_module_that_is_no_text(self):
        error = type("X", (Exception,), {"__module__": None})("text")
        self.assertFits(Failure.of(error))

    def test_a_deep_recursion(self):
        def dive(depth):
            return dive(depth + 1)

        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(6_000)
        try:
            dive(0)
        except RecursionError as error:
            failure = Failure.of(error)
        finally:
            sys.setrecursionlimit(limit)
        self.assertFits(failure)
        self.assertIn("in dive", failure.traceback)

    def test_a_syntax_error_of_an_import(self):
        try:
            compile("def (", "broken\x00.py".replace("\x00", ""), "exec")
        except SyntaxError as error:
            failure = Failure.of(error)
        self.assertFits(failure)
        self.assertEqual(failure.error_class, "builtins.SyntaxError")

    def test_causes_come_first(self):
        try:
            try:
                raise KeyError("first")
            except KeyError as cause:
                raise ValueError("second") from cause
        except ValueError as error:
            text = Failure.of(error).traceback
        self.assertLess(text.index("first"), text.index("second"))

    def test_a_circle_of_causes(self):
        first, second = raised(KeyError("first")), raised(ValueError("second"))
        first.__cause__, second.__cause__ = second, first
        self.assertFits(Failure.of(first))

    def test_a_group(self):
        self.assertIn("inner", Failure.of(ExceptionGroup("all", [ValueError("inner")])).traceback)


class CleanTests(SimpleTestCase):
    @given(st.text(st.characters(codec=None)), st.integers(60, 200))
    def test_fits_and_can_be_stored(self, text, limit):
        cleaned = clean(text, limit)
        self.assertLessEqual(len(cleaned), limit)
        self.assertNotIn("\x00", cleaned)
        cleaned.encode()

    def test_escaping_does_not_make_it_too_long(self):
        for character in ("\x00", "\ud800"):
            self.assertLessEqual(len(clean(character * 4_000, 4_000)), 4_000)

    def test_what_needs_nothing_is_left_alone(self):
        self.assertEqual(clean("as it is é \U0001f600", 100), "as it is é \U0001f600")
