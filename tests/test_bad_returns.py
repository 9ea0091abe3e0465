"""What handlers return instead of having run."""

from django.test import TestCase

from django_nobroker import Queue
from tests.work import Quiet, fresh, states, work


class ReturnTests(Quiet, TestCase):
    def test_what_a_handler_returns_is_nobodys_concern(self):
        for value in (None, 5, object(), lambda: None, ValueError("returned"), {1: {2}}):
            job = Queue().enqueue(1)
            work(lambda job, value=value: value)
            with self.subTest(type(value).__name__):
                self.assertEqual(states(job), ["done"])

    def test_what_it_returns_unstarted_is_not_success(self):
        """A wrapper that is not async itself, or a yield: the work in it would never be done."""

        async def coroutine(job): ...

        def generator(job):
            yield

        async def async_generator(job):
            yield

        for handler in (lambda job: coroutine(job), generator, async_generator):
            job = Queue(max_attempts=1).enqueue(1)
            work(handler)
            with self.subTest(handler.__name__):
                self.assertEqual(states(job), ["dead"])
                self.assertRegex(fresh(job).last_error, "coroutine|generator")
