"""For the tests of projects: run what is due, look at what was enqueued, run tasks at once.

All of it works on the connection of the test, so in a TestCase as in a TransactionTestCase.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from . import calls, sql
from .backend import NobrokerBackend
from .models import Job, State
from .queue import Queue
from .tasks import SUPPORTED
from .worker import Worker, WorkerOptions, WorkerStats

if TYPE_CHECKING:
    from django.tasks import Task

__all__ = ["ImmediateBackend", "JobAssertions", "enqueued", "run_due"]


def run_due(
    queue: Queue | str | None = None, handler: Any = None, *, using: str | None = None
) -> WorkerStats:
    """Run all jobs that are due now, of one queue or of all, on this thread; return what was done.

    Retries whose time has come run as well; those that are delayed are left. Raises
    LeaseInTransaction inside an `atomic()` of the test's own.
    """
    if isinstance(queue, Queue):
        using = using or queue.alias
        queue = queue.name
    elif queue is None and using is None:
        # In each database that tasks are written to.
        done = [run_due(None, handler, using=alias) for alias in sorted(_databases())]
        return WorkerStats(*map(sum, zip(*done, strict=True)))
    options = WorkerOptions.checked(
        queues=None if queue is None else [queue], burst=True, handle_signals=False
    )
    return Worker.serving(options, handler, using=using).run(inline=True)


def enqueued(
    task_or_queue: Any = None, *, using: str | None = None, state: str | None = State.READY
) -> list[Job]:
    """Return the jobs of a task, of a queue or of all, in the order in which they were enqueued.

    Without `state`, in whatever state they are.
    """
    if using is None and hasattr(task_or_queue, "module_path"):
        using = getattr(task_or_queue.get_backend(), "database", None)
    jobs = Job.objects.using(sql.database(using)).order_by("id")
    if isinstance(task_or_queue, Queue):
        jobs = Job.objects.using(task_or_queue.alias).in_queue(task_or_queue.name).order_by("id")
    elif isinstance(task_or_queue, str):
        jobs = jobs.filter(queue=task_or_queue)
    elif task_or_queue is not None:
        jobs = jobs.filter(task=task_or_queue.module_path)
    return list(jobs if state is None else jobs.filter(state=state))


class JobAssertions:
    """Assertions for a test case: `class SignUpTests(JobAssertions, TestCase)`."""

    def assertEnqueued(  # noqa: N802 - named as those of unittest
        self,
        task_or_queue: Any,
        payload: Any = None,
        *,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        count: int | None = None,
        using: str | None = None,
    ) -> list[Job]:
        """Fail unless such jobs wait: exactly `count`, or any number; return them.

        `payload` is that of a queue's jobs; `args` and `kwargs` are those of a task's.
        """
        found = enqueued(task_or_queue, using=using)
        wanted = [job for job in found if _fits(job, payload, args, kwargs)]
        if len(wanted) != count if count is not None else not wanted:
            shown = "\n".join(f"  {job}: {job.payload_text:.200}" for job in found) or "  none"
            raise AssertionError(
                f"{len(wanted)} such jobs wait, not {'any' if count is None else count}. "
                f"Of {_name(task_or_queue)} there are:\n{shown}"
            )
        return wanted

    def assertNothingEnqueued(  # noqa: N802
        self, task_or_queue: Any = None, *, using: str | None = None
    ) -> None:
        """Fail if a job waits: of a task, of a queue, or any."""
        found = enqueued(task_or_queue, using=using)
        if found:
            shown = "\n".join(f"  {job}: {job.task} {job.payload_text:.200}" for job in found)
            raise AssertionError(f"{len(found)} jobs wait:\n{shown}")


class ImmediateBackend(NobrokerBackend):
    """Runs each task where it is enqueued, once, and writes nothing.

    Arguments and results go through the same JSON as the real backend's, and the same are
    refused. `run_after` is not waited for, and what fails is not tried again.
    """

    def __init__(self, alias: str, params: Any) -> None:
        super().__init__(alias, params)
        self._results: dict[str, Any] = {}
        self._jobs: dict[str, Job] = {}
        self._ids = itertools.count(1)

    def _write(self, task: Task[..., Any], made: Sequence[calls.Call]) -> list[Job]:
        from .transitions.enqueue import Terms

        texts = [calls.stored(call) for call in made]
        new = Terms(
            queue=task.queue_name, max_attempts=1, priority=task.priority, run_after=task.run_after
        ).new(texts)
        now = datetime.now(UTC)
        jobs = [
            Job(
                id=next(self._ids),
                payload_text=text,
                task=task.module_path,
                backend=self.alias,
                available_at=task.run_after or now,
                created_at=now,
                state=State.READY.value,
                attempts=0,
                leased_by="",
                **{name: new.columns[name] for name in ("queue", "priority", "max_attempts")},
            )
            for text in texts
        ]
        self._jobs.update((str(job.id), job) for job in jobs)
        return jobs

    def enqueue_many(self, task: Task[..., Any], arguments: Any) -> list[Any]:
        """Run the task once for each pair of args and kwargs; return the results, finished."""
        found = super().enqueue_many(task, arguments)
        for result in found:
            self._run(result)
            self._results[result.id] = result
        return found

    def get_result(self, result_id: str) -> Any:
        """Return the result with this id, of this thread."""
        from django.tasks.exceptions import TaskResultDoesNotExist

        if result_id not in self._results:
            raise TaskResultDoesNotExist(result_id)
        return self._results[result_id]

    def _run(self, result: Any) -> None:
        from django.tasks import TaskResultStatus
        from django.tasks.base import TaskError
        from django.tasks.signals import task_finished, task_started

        from . import results

        def put(**values: Any) -> None:
            for name, value in values.items():
                object.__setattr__(result, name, value)

        now = timezone.now()
        put(status=TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now)
        result.worker_ids.append("immediate")
        task_started.send(type(self), task_result=result)
        task = result.task
        context: list[Any] = []
        if task.takes_context:
            context.append(results.JobContext(task_result=result, job=self._jobs[result.id]))
        try:
            value = task.call(*context, *result.args, **result.kwargs)
            put(_return_value=calls.read_result(calls.stored_result(value)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            kind = type(error)
            path = f"{kind.__module__}.{kind.__qualname__}"
            told = "".join(format_exception(error))
            result.errors.append(TaskError(exception_class_path=path, traceback=told))
            put(status=TaskResultStatus.FAILED, finished_at=timezone.now())
            task_finished.send(type(self), task_result=result)
        else:
            put(status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now())
            task_finished.send(type(self), task_result=result)


def _databases() -> set[str]:
    """Return the aliases of the databases that jobs are written to, tasks or not."""
    found = {sql.database()}
    if SUPPORTED:
        from django.tasks import task_backends

        backends = [task_backends[alias] for alias in task_backends]
        found |= {each.database for each in backends if isinstance(each, NobrokerBackend)}
    return found


def _fits(
    job: Job, payload: Any, args: Sequence[Any] | None, kwargs: dict[str, Any] | None
) -> bool:
    if payload is not None and job.payload != payload:
        return False
    if args is None and kwargs is None:
        return True
    if not job.task:
        return False
    call = calls.read(job.payload_text, lambda: f"payload of {job}")
    wanted = calls.made(args or [], kwargs or {}, None)
    return (args is None or call.args == wanted.args) and (
        kwargs is None or call.kwargs == wanted.kwargs
    )


def _name(task_or_queue: Any) -> str:
    if isinstance(task_or_queue, Queue):
        return f"queue {task_or_queue.name}"
    return str(getattr(task_or_queue, "module_path", task_or_queue))
