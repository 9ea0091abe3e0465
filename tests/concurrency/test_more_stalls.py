"""A network that says nothing any more: no connection ends, and no answer comes."""

import signal

from django.db import connection

from django_nobroker import Job

from .proxy import Proxy
from .stage import QUICK, ProcessTestCase


class StalledTests(ProcessTestCase):
    nobroker = QUICK | {"VISIBILITY_TIMEOUT": 1.0}

    def setUp(self):
        super().setUp()
        if connection.vendor == "sqlite":
            self.skipTest("has no server")
        settings = connection.settings_dict
        self.proxy = Proxy(settings["HOST"], settings["PORT"])
        self.addCleanup(self.proxy.close)
        self.through = {"HOST": "127.0.0.1", "PORT": str(self.proxy.port)}

    def test_a_signal_ends_an_idle_worker(self):
        worker = self.worker("note", database=self.through)
        self.queue.enqueue("before")
        self.wait_for_states(done=1)
        self.proxy.stall()
        # The claimer and the keeper; the settler has nothing to ask.
        self.wait_for(lambda: len(self.proxy.waiting) > 1, "a worker that waits for answers")
        worker.stop()
        self.assertNotIn("Traceback", worker.said)

    def test_a_second_signal_ends_a_busy_worker(self):
        self.queue.enqueue("job")
        worker = self.worker("hang", database=self.through)
        self.wait_for_mark("started")
        self.proxy.stall()
        worker.send(signal.SIGTERM)
        self.wait_until_said(worker, "waits for 1 running job")
        worker.stop()
        self.assertEqual(self.states(), {"leased": 1})
        self.worker("note")
        self.wait_for_states(done=1)

    def test_a_handler_learns_that_its_lease_can_no_longer_be_renewed(self):
        """Only the keeper's statement is held up: those of the claimer still come through."""
        self.queue.enqueue("job")
        worker = self.worker("notice_loss_first", database=self.through)
        self.wait_for_mark("started")
        # The only statement that renews a lease and changes nothing else.
        self.proxy.stall(b"SKIP LOCKED")
        self.wait_for_mark("noticed")
        self.assertEqual(self.marks("noticed"), ["True"])
        other = self.worker("notice_loss_first")
        self.wait_for_states(done=1)
        other.stop()
        self.mark("go")
        self.wait_until_said(worker, "came too late")
        self.assertEqual(worker.said.count("lease lost: it ran out"), 1)
        worker.stop()
        self.assertEqual(worker.totals["lost leases"], 1)
        self.assertEqual(Job.objects.get().attempts, 2)
