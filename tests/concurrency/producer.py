"""A process that enqueues: `python -m tests.concurrency.producer NAME COUNT [options]`.

Any error ends it with a traceback. Its last line says how many jobs it created.
"""

import argparse
import random
import sys
import time

import django


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("count", type=int)
    parser.add_argument("--max-attempts", type=int)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--mixed", action="store_true")
    options = parser.parse_args()
    django.setup()
    created = 0
    for number in range(options.count):
        made = mixed(options, number) if options.mixed else plain(options, number)
        created += made
        time.sleep(options.pause)
    sys.stdout.write(f"created {created}\n")


def plain(options, number):
    """Enqueue one job whose payload no other producer has."""
    from django_nobroker import Queue

    queue = Queue("work", max_attempts=options.max_attempts)
    return queue.enqueue({"effect": f"{options.name}-{number}"}).created


def mixed(options, number):
    """Enqueue as a project does: with other work, priorities, delays and keys that clash."""
    from django.contrib.auth.models import Group
    from django.db import transaction

    from django_nobroker import Queue

    effect = f"{options.name}-{number}"
    chance = random.Random(effect)
    terms = {"priority": chance.choice((-10, 0, 0, 10))}
    if chance.random() < 0.3:
        terms["delay"] = chance.random() / 2
    if chance.random() < 0.3:
        terms["job_id"] = f"key-{number // 3}"
    queue = Queue("work", max_attempts=options.max_attempts)
    payload = {"effect": effect, "fail_first": chance.random() < 0.2}
    with transaction.atomic():
        Group.objects.create(name=f"order {effect}")
        created = queue.enqueue(payload, **terms).created
        if chance.random() < 0.2:
            queue.enqueue_many([{"effect": f"{effect}-{part}"} for part in range(3)])
            created += 3
    return created


if __name__ == "__main__":
    main()
