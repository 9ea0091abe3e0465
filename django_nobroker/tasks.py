"""Which Task a row names. What a row names is called only if it is one.

A path that cannot be followed here may be good in another release, so it is told apart from one
that leads to something else.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from .exceptions import NotATask, UnknownTask
from .failures import Failure

if TYPE_CHECKING:
    from django.tasks import Task

# Whether this Django has `django.tasks`.
SUPPORTED = django.VERSION >= (6, 0)


def find(path: str) -> Task[..., Any]:
    """Return the Task at a dotted path: a module's, as Django has them.

    Raises UnknownTask where the path cannot be followed, whatever its module does while it is
    imported, and NotATask where it leads to something else. The standard library holds no
    tasks: nothing of it is imported on behalf of a row.
    """
    from django.tasks import Task

    module, _, name = path.rpartition(".")
    parts = path.split(".")
    if not module or not all(part.isidentifier() for part in parts):
        raise NotATask(f"{path!r:.200} is not the dotted path of a task.")
    if _is_standard(parts[0]):
        raise NotATask(f"{path:.200} is in Python's standard library, which has no tasks.")
    try:
        importlib.invalidate_caches()
        found = vars(importlib.import_module(module))
    except BaseException as error:
        # Of any kind: it ends the import, not the worker.
        said = Failure.of(error).message
        raise UnknownTask(f"The task {path:.200} cannot be imported here: {said:.500}.") from None
    if name not in found:
        raise UnknownTask(f"The task {path:.200} cannot be imported here: its module has none.")
    task = found[name]
    if not isinstance(task, Task):
        kind = type(task).__name__
        raise NotATask(f"{path:.200} is a {kind:.100}, not a Task: it needs Django's @task.")
    return task


def signature_of(task: Task[..., Any]) -> inspect.Signature:
    """Return what a task takes from those who enqueue it: its context is not theirs to give."""
    signature = inspect.signature(task.func)
    if not task.takes_context:
        return signature
    context, *others = signature.parameters.values()
    if context.kind not in {context.POSITIONAL_ONLY, context.POSITIONAL_OR_KEYWORD}:
        return signature
    return signature.replace(parameters=others)


def _is_standard(package: str) -> bool:
    """Return whether a top-level package is one of Python's own, by where it lies."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        # Made by a program, not found in a file.
        return False
    if spec is None or spec.origin is None:
        return False
    if not spec.has_location:
        return True
    parts = Path(spec.origin).resolve().parts
    home = Path(sysconfig.get_path("stdlib")).resolve().parts
    return parts[: len(home)] == home and not {"site-packages", "dist-packages"} & {*parts}
