"""A job that takes its process with it goes dead by itself, and harms no neighbour."""

import signal

from django_nobroker import Job, Queue
from django_nobroker.models import Attempt

from .stage import QUICK, ProcessTestCase


class PoisonTests(ProcessTestCase):
    nobroker = QUICK | {"VISIBILITY_TIMEOUT": 1.0}
    innocents = 200

    def keep_running(self, *options):
        """Start the worker again whenever it has died, until there is nothing left to do."""
        deaths = 0
        handler = "tests.concurrency.harmful:end_process"
        worker = self.start("worker", "-m", "django", "nobroker_work", handler, *options)
        while Job.objects.filter(state__in=["ready", "leased"]).exists():
            if not worker.has_ended:
                self.wait_for(
                    lambda worker=worker: worker.has_ended or not self.unsettled(), "an end"
                )
                continue
            deaths += 1
            worker = self.start("worker", "-m", "django", "nobroker_work", handler, *options)
        worker.stop()
        return deaths

    def unsettled(self):
        return Job.objects.filter(state__in=["ready", "leased"]).count()

    def enqueue(self, *poisons, attempts):
        half = self.innocents // 2
        queue = Queue("work", max_attempts=attempts)
        queue.enqueue_many(f"innocent-{n}" for n in range(half))
        bad = queue.enqueue_many(poisons)
        queue.enqueue_many(f"innocent-{n}" for n in range(half, self.innocents))
        return [job.id for job in bad]

    def assert_only_dead(self, bad):
        self.assertCountEqual(Job.objects.filter(state="dead").values_list("id", flat=True), bad)
        self.assertEqual(Job.objects.filter(state="done").count(), self.innocents)
        self.assertEqual(len(set(self.marks("done"))), self.innocents)

    def test_a_job_that_kills_its_process_dies_alone(self):
        [bad] = self.enqueue("killed", attempts=3)
        deaths = self.keep_running()
        self.assertEqual(deaths, 3)
        self.assert_only_dead([bad])
        innocents = Job.objects.filter(state="done")
        self.assertFalse(innocents.filter(attempts__gt=2).exists())
        self.assertEqual(Attempt.objects.filter(job=bad).count(), 3)
        self.assertIn("lease expired, held by", Job.objects.get(id=bad).last_error)

    def test_every_kind_of_death_ends_in_the_dead_letter_queue(self):
        self.innocents = 20
        bad = self.enqueue("exits", "aborts", "crashes", attempts=2)
        deaths = self.keep_running()
        self.assertLessEqual(deaths, 6)
        self.assert_only_dead(bad)
        for job in Job.objects.filter(state="dead"):
            self.assertEqual(job.attempts, 2)
            self.assertIn("lease expired", job.last_error)


class KilledWhileStoppingTests(ProcessTestCase):
    def test_a_job_killed_while_its_worker_drains_runs_again(self):
        self.queue.enqueue("job")
        worker = self.worker("hang_first")
        self.wait_for_mark("started")
        worker.send(signal.SIGTERM)
        self.wait_until_said(worker, "waits for 1 running job")
        worker.kill()
        self.worker("hang_first")
        self.wait_for_states(done=1)
        self.assertEqual(self.marks("again"), ["job"])
        self.assertEqual(Job.objects.get().attempts, 2)
