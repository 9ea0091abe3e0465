"""What the demonstration promises, each held against the database and the outside world."""

from django.conf import settings

from testproject.shop.models import Order, Thumbnail

from .tally import Tally
from .warehouse import Warehouse


def broken(
    before: dict[str, Tally],
    requeued: dict[str, int],
    after: dict[str, Tally],
    warehouse: Warehouse,
) -> list[str]:
    """Return the promises that were not kept."""
    kept = {
        "some jobs were retried": any(row.retried for row in before.values()),
        "some jobs were dead before the repair": any(row.dead for row in before.values()),
        "what was dead was requeued": requeued == {name: row.dead for name, row in before.items()},
        "no job was added or lost": _jobs(before) == _jobs(after),
        "every job is done": all(row.done == row.jobs for row in after.values()),
        "every mail was sent once": _mails() == after["emails"].jobs,
        "every thumbnail was made": Thumbnail.objects.count() == after["thumbnails"].jobs,
        "the warehouse knows every order": warehouse.known
        == set(Order.objects.exclude(announced_at=None).values_list("pk", flat=True))
        == set(Order.objects.values_list("pk", flat=True)),
    }
    return [promise for promise, is_kept in kept.items() if not is_kept]


def _jobs(tallies: dict[str, Tally]) -> dict[str, int]:
    return {name: row.jobs for name, row in tallies.items()}


def _mails() -> int:
    # One file may hold several: Django names it by the second and the connection.
    files = settings.MAIL_DIR.glob("*.log")
    return sum(file.read_bytes().count(b"\nMessage-ID: ") for file in files)
