"""The handlers of the workers that these tests start.

Their effects are Groups, whose names are unique.
"""

import asyncio
import ctypes
import sys
import time

from django.contrib.auth.models import Group
from django.db.models import F

from django_nobroker import policy
from django_nobroker.worker.link import turn
from testproject.shop.models import OrderLine

from . import scene


def effect(job):
    """Have an effect that cannot happen twice: a second one is an IntegrityError."""
    Group.objects.create(name=job.payload["effect"])


def effect_slowly(job):
    """Have an effect as above, after a while."""
    time.sleep(0.005)
    effect(job)


def effect_again(job):
    """Have an effect that may be asked for again, since the first time may have been cut short."""
    Group.objects.get_or_create(name=job.payload["effect"])
    time.sleep(0.02)


def count(job):
    """Add 1 to the row of this job, and take a while over it."""
    line = OrderLine.objects.filter(pk=job.payload["line"])
    line.update(quantity=F("quantity") + 1)
    time.sleep(job.payload["seconds"])


@policy(atomic=True)
def count_atomically(job):
    """Count, and insert what cannot be there twice."""
    count(job)
    Group.objects.create(name=f"effect {job.payload['line']}")


def effect_in_the_end(job):
    """Fail the first time if the payload says so; then have an effect."""
    if job.payload.get("fail_first") and job.attempts == 1:
        raise ValueError("the first attempt is meant to fail")
    Group.objects.create(name=f"effect {job.payload['effect']}")


def note(job):
    """Leave the payload as a mark, nothing else."""
    scene.mark("done", job.payload)


def fail(job):
    """Note when this attempt was due, and fail."""
    scene.mark("due", job.available_at.isoformat())
    raise ValueError("it never works")


def fail_first(job):
    """Fail at the first attempt."""
    scene.mark("started", job.payload)
    if job.attempts == 1:
        raise ValueError("the first attempt is meant to fail")


def find_order(job):
    """Fail unless what was committed with the job is there."""
    Group.objects.get(name=job.payload)


def hang(job):
    """Run until the test says so."""
    scene.mark("started", job.payload)
    scene.wait("go")
    scene.mark("done", job.payload)


def hang_if_told(job):
    """Run until the test says so, for the payloads that ask for it."""
    if job.payload == "slow":
        hang(job)


def hang_first(job):
    """Run until the test says so at the first attempt; return at once from the next."""
    if job.attempts == 1:
        hang(job)
    else:
        scene.mark("again", job.payload)


def hold_interpreter_first(job):
    """Let no other thread of this process run until the test says so, at the first attempt."""
    if job.attempts > 1:
        return
    # Called through PyDLL, C functions keep the interpreter's lock.
    libc = ctypes.PyDLL(None)
    go = str(scene.path("go")).encode()
    scene.mark("started")
    usual = sys.getswitchinterval()
    # While no other part of the worker writes: on SQLite it would hold the lock for as long.
    with turn("default"):
        sys.setswitchinterval(1000.0)
        while libc.access(go, 0):
            libc.usleep(10_000)
        sys.setswitchinterval(usual)


def notice_loss_first(job):
    """Run until this worker knows that it has lost the job, at the first attempt."""
    if job.attempts > 1:
        return
    scene.mark("started")
    until = time.monotonic() + scene.PATIENCE
    while not job.lease_lost and time.monotonic() < until:
        time.sleep(0.01)
    scene.mark("noticed", job.lease_lost)
    scene.wait("go")


def sleep(job):
    """Run for longer than two leases."""
    scene.mark("started", job.payload)
    time.sleep(5.0)


async def sleep_async(job):
    """Run for longer than two leases, as a coroutine should."""
    scene.mark("started", job.payload)
    await asyncio.sleep(5.0)


async def block_loop(job):
    """Run for longer than two leases, and let nothing else happen on the loop."""
    scene.mark("started", job.payload)
    time.sleep(5.0)  # noqa: ASYNC251


async def refuse_to_end(job):
    """Take no notice of being cancelled."""
    scene.mark("started", job.payload)
    while True:
        try:
            await asyncio.sleep(scene.PATIENCE)
        except asyncio.CancelledError:
            scene.mark("cancelled")
