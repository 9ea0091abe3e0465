"""Placing an order: the order, its mail and its webhook commit together, or none of them does."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Count

from django_nobroker import Queue
from django_nobroker.models import Job

from .models import Order, OrderLine, Product


@transaction.atomic
def place_order(customer: Any, basket: Mapping[Product, int]) -> Order:
    """Write the order, and enqueue what is to be done about it."""
    order = Order.objects.create(customer=customer)
    OrderLine.objects.bulk_create(
        OrderLine(order=order, product=product, quantity=quantity, price=product.price)
        for product, quantity in basket.items()
    )
    mail = {"mail": "confirmation", "user": customer.pk, "order": order.pk}
    Queue("emails").enqueue(mail, subject=order)
    Queue("webhooks").enqueue({"order": order.pk}, subject=order)
    return order


def jobs_of(order: Order) -> list[Job]:
    """Return the jobs that were enqueued with `subject=order`, each with its failures so far."""
    jobs = Job.objects.filter(subject=f"{order._meta.label_lower}:{order.pk}")
    return list(jobs.annotate(failures=Count("failed_attempts")).order_by("id"))
