"""Handlers that harm their process or their connection, each chosen by its job's payload."""

import ctypes
import os
import resource
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, connections, transaction

from . import scene


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def exits():
    os._exit(1)


def aborts():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def crashes():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


ENDS = {"killed": killed, "exits": exits, "aborts": aborts, "crashes": crashes}


def end_process(job):
    """End the process of the worker as the payload says, if it does; else leave a mark."""
    if job.payload in ENDS:
        ENDS[job.payload]()
    scene.mark("done", job.payload)


def swallow_error():
    with transaction.atomic():
        Group.objects.create(name="left behind")
        with suppress(IntegrityError):
            Group.objects.create(name="left behind")


def turn_autocommit_off():
    transaction.set_autocommit(False)
    Group.objects.create(name="left behind")


def begin():
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
    Group.objects.create(name="left behind")


def enter_atomic():
    transaction.atomic().__enter__()
    Group.objects.create(name="left behind")


def close_in_atomic():
    with transaction.atomic():
        Group.objects.create(name="left behind")
        connection.close()


def change_session():
    """Change what would make the next handler fail, were it to have the same session."""
    change = {
        "postgresql": "SET search_path TO nowhere; SET lock_timeout TO 1",
        "mysql": "SET SESSION TRANSACTION READ ONLY",
        "sqlite": "PRAGMA query_only = ON",
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(change)


def break_connection():
    connection.ensure_connection()
    connection.connection.close()
    Group.objects.count()


DIRTY = {
    function.__name__: function
    for function in (
        swallow_error,
        turn_autocommit_off,
        begin,
        enter_atomic,
        close_in_atomic,
        change_session,
        break_connection,
    )
}


def soil_connection(job):
    """Do to the connection what the payload says, or be the next one who uses it."""
    if job.payload in DIRTY:
        DIRTY[job.payload]()
        return
    clean = connection.get_autocommit() and not connection.in_atomic_block
    Group.objects.create(name=job.payload)
    scene.mark("after", f"{job.payload}:{clean}")


def start_child(job):
    """Wait for a child process that would go on for ten minutes."""
    with subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE) as child:
        scene.mark("child", child.pid)
        child.communicate()


def read_in_threads(job):
    """Read in threads of the handler's own, each of which closes its connections."""

    def read():
        try:
            return Group.objects.count()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(read) for _ in range(8)]:
            future.result()


def count_queries(job):
    """Read once, and leave the number of statements that Django remembers as a mark."""
    Group.objects.count()
    scene.mark("queries", len(connection.queries))
