"""A lease holds as long as its holder lives, and ends by itself when it does not."""

import signal
import time

from django.db import IntegrityError, connection, transaction

from django_nobroker import Job, Queue
from django_nobroker.models import Attempt

from .proxy import Proxy
from .stage import QUICK, ProcessTestCase

HANDLERS = "tests.concurrency.handlers"


class RenewalTests(ProcessTestCase):
    nobroker = QUICK | {
        "QUEUES": {
            name: {"HANDLER": f"{HANDLERS}.{name}"}
            for name in ("sleep", "sleep_async", "block_loop")
        }
    }

    def test_jobs_longer_than_their_lease_run_once(self):
        for name in self.nobroker["QUEUES"]:
            Queue(name).enqueue(name)
        workers = [self.worker(None, "-c", 3) for _ in range(2)]
        self.wait_for_states(done=3)
        self.stop_all(workers)
        self.assertCountEqual(self.marks("started"), self.nobroker["QUEUES"])
        self.assertEqual(Job.objects.filter(attempts=1).count(), 3)
        self.assertFalse(Attempt.objects.exists())


class RescueTests(ProcessTestCase):
    nobroker = QUICK | {"VISIBILITY_TIMEOUT": 1.0}

    def test_all_jobs_of_a_killed_worker_are_rescued_but_the_broken_one(self):
        keyed = self.queue.enqueue("keyed", job_id="key")
        self.queue.enqueue_many(["job"] * 20)
        worker = self.worker("hang", "-c", 21)
        self.wait_for_mark("started", 21)
        worker.kill()
        self.assertFalse(self.queue.enqueue("keyed again", job_id="key").created)
        with self.assertRaises(IntegrityError), transaction.atomic():
            Job.objects.create(queue="work", job_id="key", payload_text='"by hand"')
        broken = Job.objects.last()
        Job.objects.filter(id=broken.id).update(payload_text="{no json")
        other = self.worker("note")
        self.wait_for_states(done=20, dead=1)
        other.stop()
        self.assertEqual(self.marks("done").count("keyed"), 1)
        self.assertEqual(Job.objects.get(id=keyed.id).state, "done")
        self.assertEqual(Job.objects.get(state="dead").id, broken.id)
        self.assertIn("payload", Job.objects.get(id=broken.id).last_error)

    def test_a_lease_whose_answer_was_lost_runs_out(self):
        self.queue.enqueue("job")
        worker = self.start("worker", "-m", "tests.concurrency.sabotage", "lose_first_claim",
                            f"{HANDLERS}:note")  # fmt: skip
        self.wait_for_states(done=1)
        worker.stop()
        self.assertEqual(Job.objects.get().attempts, 2)
        self.assertEqual(self.marks("done"), ["job"])

    def test_a_settling_that_failed_is_repeated(self):
        self.queue.enqueue("job")
        worker = self.start("worker", "-m", "tests.concurrency.sabotage", "lose_settling",
                            f"{HANDLERS}:note")  # fmt: skip
        self.wait_for_states(done=1)
        worker.stop()

    def test_a_dead_loop_ends_the_process(self):
        self.queue.enqueue("job")
        worker = self.start("worker", "-m", "tests.concurrency.sabotage", "die_claiming",
                            f"{HANDLERS}:note")  # fmt: skip
        self.wait_for(lambda: worker.has_ended, "the end of the worker")
        self.assertNotEqual(worker.process.returncode, 0)
        self.assertIn("Unforeseen", worker.said)


class OrderTests(ProcessTestCase):
    def test_the_first_queue_comes_first_whenever_it_has_a_job(self):
        high, low = Queue("high"), Queue("low")
        worker = self.worker("hang", "-q", "high,low")
        self.wait_until_said(worker, "Ctrl-C stops it")
        low.enqueue("low-1")
        self.wait_for_mark("started")
        low.enqueue("low-2")
        high.enqueue("high")
        # What a worker knows of its queues may be a second old on a slow machine.
        time.sleep(1.1)
        self.mark("go")
        self.wait_for_states(done=3)
        worker.stop()
        self.assertEqual(self.marks("started"), ["low-1", "high", "low-2"])


class CutOffTests(ProcessTestCase):
    def setUp(self):
        super().setUp()
        if connection.vendor == "sqlite":
            self.skipTest("has no server")
        settings = connection.settings_dict
        self.proxy = Proxy(settings["HOST"], settings["PORT"])
        self.addCleanup(self.proxy.close)
        self.through = {"HOST": "127.0.0.1", "PORT": str(self.proxy.port)}

    def test_a_worker_that_is_cut_off_notices_that_its_lease_has_run_out(self):
        self.queue.enqueue("job")
        worker = self.worker("notice_loss_first", database=self.through)
        self.wait_for_mark("started")
        self.proxy.cut()
        self.wait_for_mark("noticed")
        other = self.worker("notice_loss_first")
        self.wait_for_states(done=1)
        other.stop()
        self.proxy.mend()
        self.mark("go")
        self.wait_until_said(worker, "again, after")
        worker.stop()
        self.assertEqual(worker.totals["lost leases"], 1)
        self.assertEqual(worker.said.count("ran out before it could be renewed"), 1)
        self.assertEqual(self.marks("noticed"), ["True"])
        self.assertEqual(Job.objects.get().attempts, 2)

    def test_a_worker_works_on_when_its_server_comes_back(self):
        worker = self.worker("note", database=self.through)
        self.queue.enqueue("before")
        self.wait_for_states(done=1)
        self.proxy.cut()
        self.queue.enqueue("meanwhile")
        self.wait_until_said(worker, "cannot use the database")
        self.proxy.mend()
        self.wait_for_states(done=2)
        worker.stop()
        self.assertFalse(Job.objects.filter(attempts__gt=1).exists())

    def test_a_signal_ends_a_worker_that_is_cut_off(self):
        worker = self.worker("note", database=self.through)
        self.queue.enqueue("before")
        self.wait_for_states(done=1)
        self.proxy.cut()
        self.wait_until_said(worker, "cannot use the database")
        worker.send(signal.SIGTERM)
        worker.wait()
