"""Many producers and workers at once: every job runs, and exactly once where nobody dies."""

import time

from django.contrib.auth.models import Group

from django_nobroker import Job
from django_nobroker.models import Attempt, WorkerProcess

from .stage import QUICK, ProcessTestCase


class LoadTests(ProcessTestCase):
    nobroker = {}
    producers = 4
    jobs = 100
    workers = 4

    def test_every_job_has_its_effect_once(self):
        producers = [self.producer(f"p{n}", self.jobs) for n in range(self.producers)]
        workers = [self.worker("effect", "-c", 1 + n % 2 * 3) for n in range(self.workers)]
        for producer in producers:
            self.assertIn(f"created {self.jobs}\n", producer.wait())
        total = self.producers * self.jobs
        self.wait_for_states(done=total)
        self.stop_all(workers)
        self.assertEqual(Group.objects.count(), total)
        self.assertEqual(Job.objects.filter(attempts=1).count(), total)
        self.assertEqual(sum(worker.totals["succeeded"] for worker in workers), total)
        self.assertFalse(Attempt.objects.exists())
        self.assertFalse(WorkerProcess.objects.exists())
        self.assert_calm()


class KillTests(ProcessTestCase):
    nobroker = QUICK | {"VISIBILITY_TIMEOUT": 1.0}
    producers = 2
    jobs = 200
    workers = 3
    # One worker is killed in each of them, in the middle of a job.
    seconds = 5

    def test_no_job_is_lost_when_workers_are_killed(self):
        options = ("--max-attempts", 50, "--pause", self.seconds / self.jobs)
        producers = [self.producer(f"p{n}", self.jobs, *options) for n in range(self.producers)]
        workers = [self.new_worker(n) for n in range(self.workers)]
        total = self.producers * self.jobs
        kills = 0
        while kills < self.seconds and self.states() != {"done": total}:
            time.sleep(1.0)
            if victim := self.busy_one(workers):
                victim.kill()
                workers[workers.index(victim)] = self.new_worker(kills)
                kills += 1
        for producer in producers:
            producer.wait()
        self.wait_for_states(done=total)
        self.stop_all(workers)
        self.assertEqual(Group.objects.count(), total)
        losses = Attempt.objects.filter(error_class="django_nobroker.exceptions.LeaseLost")
        self.assertGreater(losses.count(), 0, "some kills met a job")
        self.assertEqual(Attempt.objects.count(), losses.count())

    def new_worker(self, number):
        return self.worker("effect_again", "-c", 1 + number % 2 * 3)

    def busy_one(self, workers):
        """Return a worker that holds a job, as soon as one does, or None when all is done."""
        while {"ready", "leased"} & self.states().keys():
            holders = Job.objects.filter(state="leased").values_list("leased_by", flat=True)
            numbers = {int(holder.split(":")[-2]) for holder in holders if holder}
            for worker in workers:
                if worker.process.pid in numbers:
                    return worker
        return None
