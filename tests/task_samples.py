"""Tasks for the tests. Importable only where Django has tasks."""

import asyncio

from django.contrib.auth.models import Group
from django.tasks import task

from django_nobroker import Reject, Retry, Snooze, policy


@task
def add(a, b=0):
    return a + b


@task
async def add_async(a, b=0):
    await asyncio.sleep(0)
    return a + b


@task(takes_context=True)
def tell(context):
    result = context.task_result
    return [result.id, context.job.id, context.attempt, result.worker_ids, str(result.status)]


@task
def fail(text="no luck"):
    raise ValueError(text)


@task
@policy(max_attempts=2, backoff={"base": 0, "jitter": 0})
def fail_twice():
    raise ValueError("no luck")


@task(takes_context=True)
@policy(max_attempts=3, backoff={"base": 0, "jitter": 0})
def fail_once(context):
    if context.attempt == 1:
        raise ValueError("no luck")
    return [len(context.task_result.errors), len(context.task_result.worker_ids)]


@task
def return_what_json_cannot_hold(kind):
    return {"lambda": lambda: 1, "nan": float("nan"), "set": {1}, "key": {1: 2}, "bytes": b"\xff"}[
        kind
    ]


class OddError(Exception):
    pass


@task
@policy(max_attempts=1)
def fail_oddly(text):
    raise OddError(object(), {1, 2}, b"\xff", text)


@task
def echo(*args, **kwargs):
    return [list(args), kwargs]


@task
def repeat(text, times):
    return text * times


@task
def choose(what):
    raise {"reject": Reject("no"), "snooze": Snooze(60), "retry": Retry(delay=60)}[what]


@task
@policy(atomic=True)
def make_group(name, then=""):
    Group.objects.create(name=name)
    if then == "fail":
        raise ValueError(then)
    if then == "reject":
        raise Reject(then)
    if then == "snooze":
        raise Snooze(60)
    if then == "nan":
        return float("nan")
    return name


@task
@policy(atomic=True)
async def make_group_async(name, then=""):
    await Group.objects.acreate(name=name)
    if then:
        raise ValueError(then)
    return name


not_a_task = add.func
old_name = add
