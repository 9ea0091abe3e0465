"""Tasks of Django's own framework: they need Django 6.0, and run beside the jobs of `jobs`."""

import logging

from django.core.mail import send_mail
from django.db.models import F
from django.tasks import TaskContext, task

from django_nobroker import policy

from .models import OrderLine

logger = logging.getLogger(__name__)


@task(priority=2, queue_name="newsletter", takes_context=True)
@policy(max_attempts=3, retry_on=OSError)
def email_users(context: TaskContext, emails: list[str], subject: str, message: str) -> int:
    """Send one mail to many; return to how many."""
    logger.debug("Attempt %s, task result %s.", context.attempt, context.task_result.id)
    return send_mail(subject=subject, message=message, from_email=None, recipient_list=emails)


@task
@policy(atomic=True)
def add_to_order(line: int, quantity: int) -> int:
    """Add to what was ordered: exactly once, however often a worker dies over it."""
    lines = OrderLine.objects.filter(pk=line)
    lines.update(quantity=F("quantity") + quantity)
    return lines.get().quantity
