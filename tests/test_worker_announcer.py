"""The end of a task is told as it is in the database, and nothing that goes wrong there spreads."""

from unittest import mock, skipUnless

from django.db import OperationalError, connection
from django.test import TestCase, TransactionTestCase
from django.test.utils import CaptureQueriesContext

from django_nobroker import Queue
from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from django_nobroker.transitions import settle
from django_nobroker.worker import announcer, applier
from django_nobroker.worker.link import Link
from tests.rows import alter
from tests.test_worker_tasks import drain
from tests.work import Quiet, fresh

if SUPPORTED:
    from django.tasks import signals

    from tests import task_samples as samples


class EndsCase(Quiet):
    def setUp(self):
        super().setUp()
        self.ends = []
        self.raises = None
        signals.task_finished.connect(self.receive)
        self.addCleanup(signals.task_finished.disconnect, self.receive)

    def receive(self, sender, task_result, **kwargs):
        if self.raises is not None:
            raise self.raises
        self.ends.append((task_result.id, str(task_result.status), len(task_result.errors)))


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class ThreadedTests(EndsCase, TransactionTestCase):
    def test_a_receiver_that_wants_to_end_the_process(self):
        for error in (SystemExit(3), KeyboardInterrupt()):
            self.raises = error
            for _ in range(3):
                samples.add.enqueue(1)
            self.assertEqual(drain().succeeded, 3)

    def test_a_connection_that_breaks_while_a_row_is_read(self):
        once = Link._once
        broken = []

        def once_broken(link, work):
            if link.part == "announcer" and not broken:
                broken.append(1)
                raise OperationalError("gone")
            return once(link, work)

        samples.choose.enqueue("reject")
        with mock.patch.object(Link, "_once", once_broken):
            stats = drain()
        self.assertEqual((stats.dead, len(broken)), (1, 1))
        self.assertEqual([status for _, status, _ in self.ends], ["FAILED"])

    def test_all_ends_are_told_before_the_worker_ends(self):
        with mock.patch.object(announcer, "BEHIND", 1):
            for _ in range(30):
                samples.add.enqueue(1)
            self.assertEqual(drain().succeeded, 30)
        self.assertEqual(len(self.ends), 30)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class InlineTests(EndsCase, TestCase):
    def test_an_outcome_that_the_database_refuses(self):
        result = samples.add.enqueue(1)
        apply = settle.apply

        def refuse_acks(alias, verdicts):
            verdicts = list(verdicts)
            if any(verdict.move.name == "ack" for verdict in verdicts):
                raise ValueError("too much")
            return apply(alias, verdicts)

        with mock.patch.object(applier.settle, "apply", refuse_acks):
            stats = drain()
        self.assertEqual((stats.succeeded, stats.failed, stats.dead), (0, 1, 1))
        # Dead at once: it would return the same again.
        self.assertEqual(fresh(Job.objects.get()).state, "dead")
        self.assertEqual(self.ends, [(result.id, "FAILED", 1)])

    def test_a_commit_whose_answer_was_lost(self):
        samples.add.enqueue(1)
        apply = settle.apply

        def apply_unheard(alias, verdicts):
            apply(alias, verdicts)
            # Tried again on a new connection: the fence has moved.
            return apply(alias, verdicts)

        with mock.patch.object(applier.settle, "apply", apply_unheard):
            stats = drain()
        self.assertEqual((stats.succeeded, stats.lost_leases), (1, 0))
        self.assertEqual([status for _, status, _ in self.ends], ["SUCCESSFUL"])

    def test_when_it_ended_though_the_lease_was_renewed(self):
        told = []

        def receive(sender, task_result, **kwargs):
            told.append((task_result.finished_at - task_result.started_at).total_seconds())

        signals.task_finished.connect(receive)
        self.addCleanup(signals.task_finished.disconnect, receive)
        samples.add.enqueue(1)
        finished = announcer.Announcer.put

        def put_renewed(self, ended):
            held = ended[0]
            held.leased -= 100
            # As each renewal does.
            held.deadline += 1000
            finished(self, ended)

        with mock.patch.object(announcer.Announcer, "put", put_renewed):
            drain()
        self.assertGreaterEqual(told[0], 100)
        self.assertLess(told[0], 200)

    def test_errors_from_before_a_requeue_are_in_the_context(self):
        result = samples.fail_once.enqueue()
        queue = Queue()
        queue.nack(queue.lease_one(), error=ValueError("before"))
        alter(Job.objects.get(pk=result.id), state="dead", finished_at="2020-01-01 00:00:00")
        queue.requeue_dead()
        started = []

        def receive(sender, task_result, **kwargs):
            started.append((task_result.attempts, len(task_result.errors)))

        signals.task_started.connect(receive)
        self.addCleanup(signals.task_started.disconnect, receive)
        drain()
        self.assertEqual(started[0], (1, 1))

    def test_the_times_of_many_are_read_by_one_query(self):
        from django.tasks import default_task_backend

        with CaptureQueriesContext(connection) as queries:
            default_task_backend.enqueue_many(samples.add, [((n,), {}) for n in range(50)])
        reads = [query for query in queries if query["sql"].startswith("SELECT")]
        self.assertLessEqual(len(reads), 1)
