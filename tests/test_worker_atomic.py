"""Handlers whose database effects and ack are one transaction."""

from unittest import mock, skipIf, skipUnless

from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings

from django_nobroker import LeaseLost, Queue, Reject, Retry, Snooze, Worker, policy, transitions
from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from django_nobroker.transitions import settle
from django_nobroker.worker import WorkerOptions
from tests.rows import HOUR, expire
from tests.work import Quiet, fresh, states, work

if SUPPORTED:
    from tests import task_samples as samples


def groups():
    return set(Group.objects.values_list("name", flat=True))


@policy(atomic=True)
def make(job):
    """Make a group; then what the payload says."""
    name, then = job.payload
    Group.objects.create(name=name)
    errors = {
        "fail": ValueError("no"),
        "reject": Reject("no"),
        "snooze": Snooze(60),
        "retry": Retry(delay=60),
        "exit": SystemExit(3),
    }
    if then in errors:
        raise errors[then]
    if then == "rollback":
        transaction.set_rollback(True)
    if then == "swallow":
        try:
            Group.objects.create(name=name)
        except Exception:
            return


@policy(atomic=True)
async def make_async(job):
    await Group.objects.acreate(name=job.payload)


class AtomicMixin(Quiet):
    def test_a_success(self):
        job = Queue().enqueue(["a", ""])
        self.assertEqual(work(make).succeeded, 1)
        self.assertEqual((states(job), groups()), (["done"], {"a"}))

    def test_what_fails_leaves_nothing(self):
        for then, state, attempts in (
            ("fail", "ready", 1),
            ("reject", "dead", 1),
            ("snooze", "ready", 0),
            ("retry", "ready", 1),
            ("exit", "ready", 1),
            ("rollback", "ready", 1),
        ):
            with self.subTest(then):
                job = Queue().enqueue([then, then])
                work(make, max_jobs=1)
                job = fresh(job)
                self.assertEqual((job.state, job.attempts), (state, attempts))
                self.assertEqual(groups(), set())

    def test_a_swallowed_error_of_the_database(self):
        """It spoils the transaction, so nothing is done; the error says how to catch it."""
        job = Queue().enqueue(["a", "swallow"])
        work(make, max_jobs=1)
        self.assertEqual((states(job), groups()), (["ready"], set()))
        self.assertIn("atomic() block of its own", fresh(job).last_error)

    def test_a_transaction_that_is_no_longer_the_one_begun(self):
        """Ended by the handler, or by the database while the handler took no notice."""
        if connection.vendor == "sqlite":
            statement = "ROLLBACK"
        else:
            statement = "COMMIT" if isinstance(self, TransactionTestCase) else None

        @policy(atomic=True)
        def handler(job):
            with connection.cursor() as cursor:
                cursor.execute(statement)

        if isinstance(self, TestCase) or statement is None:
            self.skipTest("would end the test's own transaction")
        job = Queue().enqueue(1)
        stats = work(handler, max_jobs=1)
        self.assertEqual((stats.succeeded, states(job)), (0, ["ready"]))

    def test_a_handler_that_settles_its_own_job(self):
        @policy(atomic=True)
        def handler(job):
            Group.objects.create(name="a")
            Queue().ack(job)

        job = Queue().enqueue(1)
        stats = work(handler, max_jobs=1)
        self.assertEqual((stats.failed, stats.lost_leases), (1, 0))
        self.assertEqual((states(job), groups()), (["ready"], set()))
        self.assertIn("must not settle its own job", fresh(job).last_error)

    def test_dead_on_beats_a_conflict(self):
        @policy(atomic=True, dead_on=OperationalError)
        def handler(job):
            raise OperationalError("conflict")

        job = Queue().enqueue(1)
        dialect = type(settle.sql.dialect(connection))
        with mock.patch.object(dialect, "is_rollback", lambda self, error: True):
            work(handler, max_jobs=1)
        self.assertEqual((states(job), fresh(job).attempts), (["dead"], 1))

    def test_async(self):
        job = Queue().enqueue("a")
        self.assertEqual(work(make_async).succeeded, 1)
        self.assertEqual((states(job), groups()), (["done"], {"a"}))

    @override_settings(NOBROKER={"KEEP_DONE": 0})
    def test_of_which_nothing_is_kept(self):
        Queue().enqueue(["a", ""])
        self.assertEqual(work(make).succeeded, 1)
        self.assertEqual((Job.objects.count(), groups()), (0, {"a"}))

    def test_the_history_of_a_failure_is_kept(self):
        job = Queue().enqueue(["a", "fail"])
        work(make, max_jobs=1)
        [attempt] = fresh(job).failed_attempts.all()
        self.assertEqual(attempt.error_class, "builtins.ValueError")

    def test_a_conflict_gives_the_attempt_back(self):
        failures = [OperationalError("conflict")] * 2

        def conflict(error):
            return "conflict" in str(error)

        @policy(atomic=True)
        def handler(job):
            Group.objects.create(name="a")
            if failures:
                raise failures.pop()

        job = Queue().enqueue(1)
        dialect = type(settle.sql.dialect(connection))
        with mock.patch.object(dialect, "is_rollback", lambda self, error: conflict(error)):
            stats = work(handler, max_jobs=3, idle_timeout=None, burst=False)
        job = fresh(job)
        self.assertEqual((job.state, job.attempts, job.snoozes), ("done", 1, 2))
        self.assertEqual((stats.succeeded, stats.failed, groups()), (1, 0, {"a"}))


class InlineTests(AtomicMixin, TestCase):
    pass


class ThreadedTests(AtomicMixin, TransactionTestCase):
    def test_hooks_run_after_the_commit_and_may_fail(self):
        seen = []

        @policy(atomic=True)
        def handler(job):
            transaction.on_commit(lambda: seen.append(states(job)))
            transaction.on_commit(lambda: 1 / 0)

        job = Queue().enqueue(1)
        with self.assertLogs("django_nobroker", "ERROR") as log:
            stats = work(handler)
        self.assertEqual((stats.succeeded, stats.lost_leases), (1, 0))
        self.assertEqual((seen, states(job)), ([["done"]], ["done"]))
        self.assertIn("is done; what it had left to do after the commit", log.output[0])

    def test_nothing_is_seen_before_the_end(self):
        seen = []

        @policy(atomic=True)
        def handler(job):
            Group.objects.create(name="a")
            seen.append(connection.in_atomic_block)
            connection.savepoint()

        Queue().enqueue(1)
        work(handler)
        self.assertEqual((seen, groups()), ([True], {"a"}))

    @skipIf(connection.vendor == "sqlite", "it has one isolation level")
    def test_a_handler_that_outlasts_a_renewal_under_a_stricter_isolation(self):
        """The renewal of its own lease must not be what its snapshot cannot see."""

        @policy(atomic=True)
        def handler(job):
            Group.objects.count()
            Group.objects.create(name=f"ran {job.attempts}")
            with elsewhere():
                renewed.append(settle.extend("default", [(job, 30)], wait=False))

        renewed = []
        job = Queue().enqueue(1)
        dialect = type(settle.sql.dialect(connection))
        with mock.patch.object(dialect, "has_one_snapshot", lambda self, connection: True):
            self.assertEqual(work(handler).succeeded, 1)
        # The row was locked: passed over, and not lost.
        self.assertEqual((renewed, states(job)), ([set()], ["done"]))
        self.assertEqual(groups(), {"ran 1"})

    def test_sync_parts_of_an_async_handler_are_inside(self):
        from asgiref.sync import sync_to_async

        @policy(atomic=True)
        async def handler(job):
            await sync_to_async(Group.objects.create)(name="a")
            if await sync_to_async(lambda: connection.in_atomic_block)():
                raise ValueError

        Queue().enqueue(1, max_attempts=1)
        self.assertEqual(work(handler).dead, 1)
        self.assertEqual(groups(), set())

    @skipIf(connection.vendor == "sqlite", "there the handler's transaction locks the others out")
    def test_a_cancelled_job_leaves_nothing(self):
        @policy(atomic=True)
        def handler(job):
            Group.objects.create(name="a")
            with elsewhere():
                transitions.cancel(Job.objects.all())

        job = Queue().enqueue(1)
        stats = work(handler, max_jobs=1)
        self.assertEqual((stats.succeeded, stats.lost_leases), (0, 1))
        self.assertEqual((states(job), groups()), (["cancelled"], set()))

    @skipIf(connection.vendor == "sqlite", "there the handler's transaction locks the others out")
    def test_a_job_that_was_reaped_and_leased_again_leaves_nothing(self):
        others = []

        @policy(atomic=True)
        def handler(job):
            Group.objects.create(name="a")
            with elsewhere():
                expire(job)
                transitions.reap("default", lambda name: Queue().options, in_touch=HOUR)
                Job.objects.update(available_at="2020-01-01T00:00:00Z")
                others.extend(Queue().lease())

        Queue().enqueue(1)
        stats = work(handler, max_jobs=1)
        self.assertEqual((stats.succeeded, stats.lost_leases), (0, 1))
        self.assertEqual(groups(), set())
        Queue().ack(others[0])


class elsewhere:  # noqa: N801 - reads as what it is in a with statement
    """Do the body on a connection of its own, outside the transaction of this thread."""

    def __enter__(self):
        from django.db import connections

        self.before = connections["default"]
        del connections["default"]

    def __exit__(self, *exc_info):
        from django.db import connections

        connections["default"].close()
        connections["default"] = self.before


class ManualTests(Quiet, TransactionTestCase):
    """The same by hand: the ack in the caller's own transaction."""

    def test_both_or_neither(self):
        queue = Queue()
        queue.enqueue_many(["a", "b"])
        first, second = queue.lease(2)
        with transaction.atomic():
            Group.objects.create(name="a")
            queue.ack(first)
        expire(second)
        transitions.reap("default", lambda name: queue.options, in_touch=HOUR)
        with self.assertRaises(LeaseLost), transaction.atomic():
            Group.objects.create(name="b")
            queue.ack(second)
        self.assertEqual(groups(), {"a"})

    def test_in_a_workers_handler(self):
        def handler(job):
            with transaction.atomic():
                Group.objects.create(name="a")
                Queue().ack(job)

        job = Queue().enqueue(1)
        with self.assertNoLogs("django_nobroker", "WARNING"):
            stats = work(handler)
        self.assertEqual((stats.succeeded, stats.lost_leases), (1, 0))
        self.assertEqual((states(job), groups()), (["done"], {"a"}))


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class TaskTests(Quiet, TransactionTestCase):
    def drain(self):
        options = WorkerOptions.checked(burst=True, handle_signals=False, poll_interval=0.01)
        return Worker.serving(options).run()

    def test_each_end(self):
        good = [samples.make_group.enqueue("a"), samples.make_group_async.enqueue("b")]
        for then in ("fail", "reject", "snooze", "nan"):
            samples.make_group.enqueue(then, then)
        samples.make_group_async.enqueue("c", "fail")
        self.drain()
        self.assertEqual(groups(), {"a", "b"})
        for result, value in zip(good, "ab", strict=True):
            result.refresh()
            self.assertEqual(result.return_value, value)
        found = [(job.state, job.attempts) for job in Job.objects.order_by("id")[2:]]
        expected = [("ready", 1), ("dead", 1), ("ready", 0), ("dead", 1), ("ready", 1)]
        self.assertEqual(found, expected)
