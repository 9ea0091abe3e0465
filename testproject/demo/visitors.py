"""The demonstration's visitors. They use the shop's own pages, by Django's test client."""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.core.files.base import ContentFile, File
from django.test import Client
from django.urls import reverse

from testproject.shop.catalogue import add_product
from testproject.shop.models import Product

PICTURES = Path(__file__).resolve().parent.parent / "shop" / "pictures"
PRICES = {
    "Apples": ("apple.jpg", "2.40"),
    "Bananas": ("banana.jpg", "1.90"),
    "Blueberries": ("blueberries.jpg", "9.80"),
    "Cherries": ("cherries.jpg", "7.50"),
    "Lemons": ("lemon.jpg", "3.20"),
    "Oranges": ("orange.jpg", "2.80"),
    "Pears": ("pear.jpg", "2.90"),
}
# The supplier's server answered with an error page when it was asked for this one's picture.
LATE = ("Plums", "plum.jpg", "3.60")
NAMES = ("ada", "ben", "chloe", "dinesh", "elif", "femi", "greta", "hugo", "ines", "jun")
UNLUCKY = "mallory"
ORDERS_EACH = 2


class Refused(Exception):
    """A page of the shop did not answer as it should."""


def stock() -> None:
    """Put the products on the shelves."""
    for name, (file, price) in PRICES.items():
        with (PICTURES / file).open("rb") as picture:
            add_product(name, Decimal(price), File(picture, file))
    name, file, price = LATE
    add_product(name, Decimal(price), ContentFile(b"<html>502 Bad Gateway</html>", file))


def repair_picture() -> None:
    """Put the picture in the place of the error page."""
    name, file, _ = LATE
    with (PICTURES / file).open("rb") as picture:
        Product.objects.get(name=name).picture.save(file, File(picture))


def sign_up(name: str) -> tuple[Client, int]:
    """Sign up at /signup/; return the visitor's browser and the status of the answer."""
    browser = Client(SERVER_NAME="localhost", raise_request_exception=False)
    password = secrets.token_urlsafe(16)
    answer = browser.post(
        reverse("signup"),
        {
            "username": name,
            "email": f"{name}@customers.example",
            "password1": password,
            "password2": password,
        },
    )
    return browser, answer.status_code


def sign_up_all() -> Iterator[Client]:
    for name in NAMES:
        browser, status = sign_up(name)
        if status != 302:
            raise Refused(f"The sign-up of {name} was answered with {status}.")
        yield browser


def fail_to_sign_up() -> int:
    """Sign up in a request that fails once the mail is enqueued; return its status."""
    with _broken_log_in(), _quiet():
        return sign_up(UNLUCKY)[1]


def order_all(browsers: list[Client]) -> Iterator[int]:
    """Place every customer's orders on the catalogue page; yield the number of each."""
    products = list(Product.objects.all())
    for turn in range(ORDERS_EACH):
        for place, browser in enumerate(browsers):
            basket = {
                f"product-{products[(place + turn + step * 3) % len(products)].pk}": step + 1
                for step in range(1 + (place + turn) % 3)
            }
            answer = browser.post(reverse("catalogue"), basket)
            if answer.status_code != 302:
                raise Refused(f"An order was answered with {answer.status_code}.")
            yield int(answer["Location"].strip("/").rpartition("/")[2])


@contextmanager
def _broken_log_in() -> Iterator[None]:
    def fail(**kwargs: Any) -> None:
        raise RuntimeError("The audit log is not to be reached.")

    user_logged_in.connect(fail)
    try:
        yield
    finally:
        user_logged_in.disconnect(fail)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Django's report of the failure that is meant off the terminal."""
    logger = logging.getLogger("django.request")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
