"""Effects in the database under atomic=True: exactly one of each, whenever a worker is killed."""

import random
import time

from django.contrib.auth.models import Group, User

from django_nobroker import Job
from django_nobroker.models import Attempt
from testproject.shop.models import Order, OrderLine, Product

from .stage import QUICK, ProcessTestCase


class ExactlyOnceTests(ProcessTestCase):
    """Each job adds 1 to its row and inserts one under a unique constraint."""

    nobroker = QUICK | {"VISIBILITY_TIMEOUT": 1.0, "MAX_ATTEMPTS": 100}
    handler = "count_atomically"
    jobs = 60
    workers = 3
    # Seconds between two kills, and how many there are at most.
    every = 0.3
    kills = 15
    # The shortest and the longest handler, in seconds.
    takes = (0.02, 0.06)

    def setUp(self):
        super().setUp()
        customer = User.objects.create(username="customer")
        product = Product.objects.create(name="a thing", price=1)
        orders = Order.objects.bulk_create([Order(customer=customer) for _ in range(self.jobs)])
        for order in Order.objects.all() if orders[0].pk is None else orders:
            line = OrderLine.objects.create(order=order, product=product, quantity=0, price=1)
            seconds = random.Random(order.pk).uniform(*self.takes)
            self.queue.enqueue({"line": line.pk, "seconds": seconds})

    def kill_and_finish(self):
        """Kill a worker now and then, in whatever it is at; let the others bring it to its end."""
        workers = [self.worker(self.handler, "-c", 2) for _ in range(self.workers)]
        killed = 0
        self.wait_for(lambda: Job.objects.filter(state="done").exists(), "the first job done")
        while killed < self.kills and self.states() != {"done": self.jobs}:
            time.sleep(self.every)
            victim = workers.pop(0)
            victim.kill()
            workers.append(self.worker(self.handler, "-c", 2))
            killed += 1
        self.wait_for_states(done=self.jobs)
        self.stop_all(workers)
        return killed

    def counters(self):
        """Return how often each job had its effect: {times: jobs}."""
        found = list(OrderLine.objects.values_list("quantity", flat=True))
        return {times: found.count(times) for times in sorted(set(found))}

    def test_every_counter_is_exactly_1(self):
        self.assertGreater(self.kill_and_finish(), 0)
        self.assertEqual(self.counters(), {1: self.jobs})
        self.assertEqual(Group.objects.count(), self.jobs)
        classes = set(Attempt.objects.values_list("error_class", flat=True))
        self.assertLessEqual(classes, {"django_nobroker.exceptions.LeaseLost"})
