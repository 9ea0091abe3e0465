"""The shop on the test's own database, with its pages, its pictures and its warehouse."""

import shutil
import tempfile
from contextlib import contextmanager
from decimal import Decimal
from unittest import mock

import django
from django.contrib.auth.models import User
from django.core.files import File
from django.db import connection
from django.test import override_settings

from django_nobroker import Queue
from testproject import settings as project
from testproject.demo.visitors import PICTURES
from testproject.demo.warehouse import Warehouse
from testproject.shop.catalogue import add_product
from testproject.shop.models import Order
from tests.work import Quiet, worker

# The shop without the admin, the messages and the files of the project around it.
PAGES = {
    "ROOT_URLCONF": "testproject.shop.urls",
    "MIDDLEWARE": [name for name in project.MIDDLEWARE if "messages" not in name],
    "TEMPLATES": [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                ]
            },
        }
    ],
    "NOBROKER": project.NOBROKER,
    "STATIC_URL": project.STATIC_URL,
    "LOGIN_URL": project.LOGIN_URL,
    "ALLOWED_HOSTS": ["testserver", "localhost"],
}
if django.VERSION >= (6, 1):
    # In memory, as Django's test runner has it; an older Django needs no word on it.
    PAGES["MAILERS"] = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}


class Shop(Quiet):
    """Mixin: the shop is open."""

    def setUp(self):
        super().setUp()
        media = tempfile.mkdtemp(prefix="nobroker-media-")
        self.addCleanup(shutil.rmtree, media)
        self.enterContext(override_settings(**PAGES, MEDIA_ROOT=media, MEDIA_URL="/media/"))
        self.enterContext(mock.patch.dict(connection.settings_dict, ATOMIC_REQUESTS=True))

    def customer(self, name="ada"):
        return User.objects.create_user(name, f"{name}@customers.example", "a word for the test")

    def product(self, name="Apples", file="apple.jpg", price="2.40"):
        with (PICTURES / file).open("rb") as picture:
            return add_product(name, Decimal(price), File(picture, file))

    def order(self, pk, customer=None):
        """Write an order with a number of the test's choice, and the job that announces it."""
        order = Order.objects.create(pk=pk, customer=customer or self.customer(f"customer{pk}"))
        return order, Queue("webhooks").enqueue({"order": pk}, subject=order)

    def work(self, **options):
        """Let the shop's worker do what is due."""
        return worker(None, None, **options).run()

    @contextmanager
    def warehouse(self):
        with Warehouse() as warehouse, override_settings(SHOP_WEBHOOK_URL=warehouse.url):
            yield warehouse
