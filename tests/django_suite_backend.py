"""Our backend as Django's own tests of tasks need it: with a worker, and with rows to look at."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from django.db import connections

from django_nobroker import results
from django_nobroker.backend import NobrokerBackend
from django_nobroker.models import Job
from django_nobroker.worker import Worker, WorkerOptions


class DrainingBackend(NobrokerBackend):
    """Stands in for Django's ImmediateBackend: a worker runs each task when it is enqueued."""

    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        work()
        return self.get_result(result.id)


def work():
    """Have a worker run what is due."""
    options = WorkerOptions.checked(burst=True, handle_signals=False)
    Worker.serving(options).run()


def clear():
    """Delete all jobs."""
    Job.objects.all().delete()


def stored():
    """Return the results of all jobs, in the order in which they were enqueued."""
    return results.read_many(Job.objects.order_by("id"))


def off_loop(function, *args):
    """Call a function that uses the database: on another thread, if this one runs coroutines.

    Django's tests call such functions in coroutines, where its databases refuse to work.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function(*args)
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(function, *args).result()
        finally:
            thread.submit(connections.close_all).result()
