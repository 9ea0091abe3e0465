"""Getting products into the shop. A picture and the jobs for its thumbnails commit together."""

from decimal import Decimal

from django.core.files import File
from django.db import transaction

from django_nobroker import Queue

from .models import Product

SMALL, LARGE = THUMBNAIL_WIDTHS = (96, 360)


@transaction.atomic
def add_product(name: str, price: Decimal, picture: File) -> Product:
    product = Product.objects.create(name=name, price=price, picture=picture)
    enqueue_thumbnails(product)
    return product


def enqueue_thumbnails(product: Product) -> None:
    Queue("thumbnails").enqueue_many(
        [{"product": product.pk, "width": width} for width in THUMBNAIL_WIDTHS], subject=product
    )
