"""Handlers whose database effects and ack are one transaction."""

from unittest import mock, skipIf

from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings

from django_nobroker import Queue, Reject, Retry, Snooze, policy
from django_nobroker.models import Job
from django_nobroker.transitions import settle
from tests.work import Quiet, elsewhere, fresh, states, work


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
            # Each in a queue of its own: those before it may be due again.
            with self.subTest(then):
                job = Queue(then).enqueue([then, then])
                work(make, queues=[then], max_jobs=1)
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
