"""What the page of Django's documentation on tasks defines, beside what is in the shop."""

from django.tasks import task

from testproject.shop.models import Order


@task
def double_dictionary(key):
    return {key: key * 2}


@task
def process_data(data):
    return data


@task
def my_task(order):
    return Order.objects.get(pk=order).pk
