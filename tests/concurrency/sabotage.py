"""A worker with a fault: `python -m tests.concurrency.sabotage FAULT HANDLER [options]`."""

import itertools
import sys

import django


def lose_first_claim():
    """Commit the first lease, and lose the answer with the connection."""
    from django.db import OperationalError

    from django_nobroker import transitions

    lease, calls = transitions.lease, itertools.count()

    def losing(alias, claim):
        jobs = lease(alias, claim)
        if jobs and next(calls) == 0:
            raise OperationalError("the server closed the connection unexpectedly")
        return jobs

    transitions.lease = losing


def refuse_settling(*errors):
    """Fail the first attempts to settle, one with each of the errors."""
    from django_nobroker.transitions import settle

    apply, left = settle.apply, list(errors)

    def failing(alias, verdicts):
        if left:
            raise left.pop(0)
        return apply(alias, verdicts)

    settle.apply = failing


def lose_settling():
    """Lose the connection at the first settling, then err in a way that nobody foresaw."""
    from django.db import OperationalError

    refuse_settling(OperationalError("connection reset by peer"), ValueError("out of the blue"))


def die_claiming():
    """End the worker's main loop with an error that is none of the database's."""
    from django_nobroker import transitions

    class Unforeseen(BaseException):
        pass

    def dying(alias, claim):
        raise Unforeseen

    transitions.lease = dying


def main():
    django.setup()
    globals()[sys.argv.pop(1)]()
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "nobroker_work", *sys.argv[1:]])


if __name__ == "__main__":
    main()
