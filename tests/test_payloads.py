"""What may be a payload, and that what may be one comes back equal."""

import json
import math
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from uuid import UUID

from django.test import SimpleTestCase
from django.utils.timezone import now
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from django_nobroker import SerializationError, payloads


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


TEXT = st.text(st.characters(codec=None))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=25,
)


def is_paired(text):
    """Tell whether half a surrogate pair meets its other half, which JSON makes one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") != text and any(
        "\ud800" <= first <= "\udbff" and "\udc00" <= second <= "\udfff"
        for first, second in pairwise(text)
    )


class RoundTripTests(SimpleTestCase):
    def assertComesBack(self, value):
        text = payloads.encode(value)
        self.assertTrue(text.isascii())
        back = payloads.decode(text)
        self.assertEqual(back, value)
        self.assertEqual(type(back), type(value))

    @given(JSON)
    def test_any_json(self, value):
        self.assertComesBack(value)

    @given(TEXT)
    def test_any_text(self, text):
        if is_paired(text):
            with self.assertRaises(SerializationError):
                payloads.encode(text)
        else:
            self.assertComesBack(text)

    def test_values_that_databases_spoil(self):
        for value in (
            None,
            True,
            False,
            0,
            1.0,
            0.1,
            5e-324,
            sys.float_info.max,
            2**80,
            -(2**80),
            "",
            "\x00",
            "a\x00b",
            "\ud800",
            "\udfff tail",
            "\U0001f600",
            "é",
            "e\u0301",
            "\u2028",
            "\\u0000",
            {"\x00": "\x00"},
            {"": 0},
            [],
            {},
            [[]],
            "true",
            "null",
            " x ",
            '"',
            "'",
            "%s %(x)s",
        ):
            with self.subTest(value=value):
                self.assertComesBack(value)

    def test_negative_zero_keeps_its_sign(self):
        self.assertEqual(math.copysign(1, payloads.decode(payloads.encode(-0.0))), -1)

    def test_numbers_keep_their_kind(self):
        back = payloads.decode(payloads.encode([1, 1.0, True]))
        self.assertEqual([type(item) for item in back], [int, float, bool])

    def test_order_of_keys(self):
        back = payloads.decode(payloads.encode({"b": 1, "a": 2, "c": 3}))
        self.assertEqual(list(back), ["b", "a", "c"])

    def test_a_subclass_of_dict_is_a_mapping_like_any_other(self):
        self.assertEqual(payloads.decode(payloads.encode(OrderedDict(a=1))), {"a": 1})


@dataclass
class Point:
    x: int


Pair = namedtuple("Pair", "a b")


class RefusalTests(SimpleTestCase):
    def assertRefused(self, value, *words):
        with self.assertRaises(SerializationError) as caught:
            payloads.encode(value)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_what_json_cannot_give_back(self):
        for value in (
            (1, 2),
            Pair(1, 2),
            {1},
            frozenset(),
            b"x",
            bytearray(b"x"),
            memoryview(b"x"),
            date(2026, 1, 1),
            now(),
            timedelta(1),
            Decimal(1),
            UUID(int=1),
            Point(1),
            object(),
            gettext_lazy("Monday"),
            1j,
            range(3),
            iter([]),
            len,
            RefusalTests,
            ValueError("x"),
            math.nan,
            math.inf,
            -math.inf,
        ):
            with self.subTest(value=value):
                self.assertRefused(value, "payload")
                self.assertRefused({"a": [0, value]}, "payload['a'][1]")

    def test_keys_that_are_not_strings(self):
        for key in (1, 1.5, None, True, (1,), b"x"):
            with self.subTest(key=key):
                self.assertRefused({"a": {key: 1}}, "payload['a']", repr(key))

    def test_two_keys_that_would_become_one(self):
        self.assertRefused({1: "a", "1": "b"}, "key 1")

    def test_a_pair_of_surrogates_written_as_two(self):
        self.assertRefused("\ud83d\ude00")

    def test_what_holds_itself(self):
        value = []
        value.append(value)
        self.assertRefused(value)

    def test_nesting(self):
        self.assertEqual(payloads.decode(payloads.encode(nested(500))), nested(500))
        self.assertRefused(nested(501), "500")
        self.assertRefused(nested(100_000))

    def test_brackets_in_strings_do_not_nest(self):
        value = ["[" * 600 + '"\\' + "{" * 600]
        self.assertEqual(payloads.decode(payloads.encode(value)), value)

    def test_size(self):
        longest = "x" * (payloads.MAX_BYTES - 2)
        self.assertEqual(len(payloads.encode(longest)), payloads.MAX_BYTES)
        self.assertRefused(longest + "x", "8,388,609", "8,388,608")

    def test_an_integer_too_long_to_print(self):
        self.assertRefused([10**5000], "payload[0]")

    def test_long_values_are_not_repeated_in_the_message(self):
        with self.assertRaises(SerializationError) as caught:
            payloads.encode({"k" * 10_000: {1}})
        self.assertLess(len(str(caught.exception)), 500)

    def test_an_error_names_where(self):
        with self.assertRaisesMessage(SerializationError, "payloads[3]['a'] is a set"):
            payloads.encode({"a": {1}}, "payloads[3]")


class DecodeTests(SimpleTestCase):
    def test_what_is_not_json(self):
        for text in (
            "",
            " ",
            "{",
            "[1,]",
            "nan",
            "NaN",
            "Infinity",
            "-Infinity",
            "[NaN]",
            "'x'",
            "\x00",
            "{}{}",
            "undefined",
            "\\xff",
            "[" * 100_000,
            "9" * 5000,
        ):
            with self.subTest(text=text[:20]), self.assertRaises(SerializationError):
                payloads.decode(text)

    def test_json_of_other_programs(self):
        for text in ('{"a" : 1}', " [1]\n", '"é"', '"\\ud83d\\ude00"', "1E5", "0"):
            with self.subTest(text=text):
                self.assertEqual(payloads.decode(text), json.loads(text))

    def test_time_of_day_is_no_payload(self):
        with self.assertRaisesMessage(SerializationError, "datetime"):
            payloads.encode(datetime(2026, 1, 1))  # noqa: DTZ001
