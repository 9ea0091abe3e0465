"""Jobs as Django shows them: TaskResult, with the errors and the workers of each attempt.

Needs django.tasks. Built without Task's own validation: a result must be readable after its
queue was removed from the settings or its task from the code.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from types import FunctionType
from typing import Any

from django.conf import settings
from django.tasks import Task, TaskContext, TaskResult, TaskResultStatus
from django.tasks.base import TaskError
from django.utils import timezone

from . import calls, payloads, tasks
from .calls import Call
from .exceptions import NotATask, SerializationError, UnknownTask
from .models import Attempt, Job, State

STATUS = {
    State.READY.value: TaskResultStatus.READY,
    State.LEASED.value: TaskResultStatus.RUNNING,
    State.DONE.value: TaskResultStatus.SUCCESSFUL,
    State.DEAD.value: TaskResultStatus.FAILED,
    State.CANCELLED.value: TaskResultStatus.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(TaskContext):  # type: ignore[misc, type-arg]  # stubs do not know it is frozen
    """What a task with takes_context is given: Django's context, and the job."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptError(TaskError):  # type: ignore[misc]  # stubs do not know it is frozen
    """Django's TaskError, which also finds classes inside of classes: Order.DoesNotExist."""

    @property
    def exception_class(self) -> type[BaseException]:
        """The class of the exception; raises ImportError or ValueError as Django's own does."""
        try:
            found = pkgutil.resolve_name(self.exception_class_path)
        except (AttributeError, ImportError, ValueError) as error:
            raise ImportError(f"{self.exception_class_path!r} cannot be imported.") from error
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            raise ValueError(f"{self.exception_class_path!r} does not reference a valid exception.")
        return found


def enqueued(job: Job, task: Task[..., Any], call: Call, backend: str) -> TaskResult[..., Any]:
    """Return the result of a job that has just been enqueued."""
    return _result(job, task, call, backend, [])


def running(job: Job, task: Task[..., Any], call: Call) -> TaskResult[..., Any]:
    """Return the result of a leased job, for its context and its signals.

    Costs a query only if an attempt has failed before, be it before a requeue.
    """
    has_history = job.attempts > 1 or job.error_class
    history = _history([job]).get(job.id, []) if has_history else []
    return _result(job, _as_enqueued(task, job, call), call, job.backend, history)


def read(job: Job) -> TaskResult[..., Any]:
    """Return the result of a job as it is in the database."""
    return read_many([job])[0]


def read_many(jobs: Sequence[Job]) -> list[TaskResult[..., Any]]:
    """Return the results of jobs as they are in the database, with one query for all."""
    history = _history(jobs)
    return [_read(job, history.get(job.id, [])) for job in jobs]


def finish(result: TaskResult[..., Any], finished_at: datetime, text: str | None) -> None:
    """Let a running result show success: by the clock given, with the return value as JSON."""
    put = object.__setattr__
    put(result, "status", TaskResultStatus.SUCCESSFUL)
    put(result, "finished_at", _local(finished_at))
    put(result, "_return_value", calls.read_result(text))


def task_of(path: str) -> Task[..., Any]:
    """Return the task at a path, or one that only has its name and cannot be called."""
    try:
        return tasks.find(path)
    except (NotATask, UnknownTask):
        module, _, name = path.rpartition(".")
        function = FunctionType(_missing.__code__, {"path": path, "UnknownTask": UnknownTask})
        function.__module__, function.__qualname__, function.__name__ = module, name, name
        return _copy(Task, {"func": function})


def _missing(*args: Any, **kwargs: Any) -> None:
    raise UnknownTask(f"The task {path} is not in this release.")  # type: ignore[name-defined]  # noqa: F821


def _read(job: Job, history: Sequence[Attempt]) -> TaskResult[..., Any]:
    try:
        call = calls.read(job.payload_text, lambda: f"payload of {job}")
    except SerializationError:
        # Its error says so; what there is of it is still to be seen.
        call = Call()
    task = _as_enqueued(task_of(job.task), job, call)
    result = _result(job, task, call, job.backend, history)
    if job.state == State.DONE and job.result is not None:
        object.__setattr__(result, "_return_value", _return_value(job))
    return result


def _return_value(job: Job) -> Any:
    try:
        return payloads.decode(job.result or "null", lambda: f"result of {job}")
    except SerializationError:
        return job.result


def _result(
    job: Job, task: Task[..., Any], call: Call, backend: str, history: Sequence[Attempt]
) -> TaskResult[..., Any]:
    current = [job.leased_by] if job.leased_by else []
    failed = max(job.attempts - len(current), 0)
    workers = [attempt.worker for attempt in history[len(history) - failed :]] if failed else []
    last = job.leased_at or (history[-1].started_at if history else None)
    return TaskResult(
        task=task,
        id=str(job.id),
        status=STATUS.get(job.state, TaskResultStatus.READY),
        enqueued_at=_local(job.created_at),
        started_at=_local(job.started_at),
        finished_at=_local(job.finished_at),
        last_attempted_at=_local(last),
        args=call.args,
        kwargs=call.kwargs,
        backend=backend,
        errors=[_error(attempt) for attempt in history],
        worker_ids=[*workers, *current],
    )


def _error(attempt: Attempt) -> AttemptError:
    return AttemptError(
        exception_class_path=attempt.error_class,
        traceback=attempt.traceback or f"{attempt.message}\n",
    )


def _history(jobs: Iterable[Job]) -> dict[int, list[Attempt]]:
    """Return the failed attempts of each job in their order."""
    jobs = list(jobs)
    found: dict[int, list[Attempt]] = {}
    alias = jobs[0]._state.db if jobs else None
    attempts = Attempt.objects.using(alias).filter(job__in=[job.id for job in jobs])
    for attempt in attempts.order_by("id"):
        found.setdefault(attempt.job_id, []).append(attempt)
    return found


def _as_enqueued(task: Task[..., Any], job: Job, call: Call) -> Task[..., Any]:
    """Return the task with the choices that it was enqueued with."""
    chosen = {
        "priority": job.priority,
        "backend": job.backend or task.backend,
        "queue_name": job.queue,
        "run_after": call.run_after,
    }
    if all(getattr(task, name) == value for name, value in chosen.items()):
        return task
    given = {field.name: getattr(task, field.name) for field in fields(task)}
    return _copy(type(task), {**given, **chosen})


def _copy(kind: type[Task[..., Any]], given: dict[str, Any]) -> Task[..., Any]:
    """Return a Task with these values and the defaults of the rest, not validated."""
    task = object.__new__(kind)
    defaults = {
        "priority": 0,
        "backend": "default",
        "queue_name": "default",
        "run_after": None,
        "takes_context": False,
    }
    for name, value in {**defaults, **given}.items():
        object.__setattr__(task, name, value)
    return task


def _local(value: datetime | None) -> datetime | None:
    """Return a time as Django's own backends do: naive in the local zone where USE_TZ is off."""
    if value is None or settings.USE_TZ:
        return value
    return timezone.make_naive(value, timezone.get_default_timezone())
