"""The handlers: one for each queue, named in settings.NOBROKER["QUEUES"].

A job may run more than once (a worker can die after the work and before the ack), so each handler
may be repeated without harm.
"""

import asyncio
import json
import urllib.error
import urllib.request
from io import BytesIO

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.core.mail import EmailMessage
from django.template.loader import render_to_string
from django.utils import timezone
from PIL import Image, ImageOps, UnidentifiedImageError

from django_nobroker import Reject
from django_nobroker.models import Job

from .models import Order, Product, Thumbnail

MAILS = ("welcome", "confirmation")


class WebhookFailed(Exception):
    """The warehouse did not accept an order; worth another try."""


def send_mail(job: Job) -> None:
    """Send a customer the mail that the payload names."""
    mail = job.payload["mail"]
    if mail not in MAILS:
        raise Reject(f"There is no mail named {mail!r}.")
    user = get_user_model().objects.filter(pk=job.payload["user"]).first()
    if user is None:
        raise Reject("The customer has left.")
    order = Order.objects.filter(pk=job.payload.get("order")).first()
    text = render_to_string(f"shop/mail/{mail}.txt", {"user": user, "order": order})
    subject, body = text.split("\n", 1)
    EmailMessage(subject, body.strip() + "\n", to=[user.email]).send()


def make_thumbnail(job: Job) -> None:
    """Scale a product's picture to the width that the payload names."""
    width = job.payload["width"]
    product = Product.objects.filter(pk=job.payload["product"]).first()
    if product is None:
        raise Reject("The product is no longer sold.")
    try:
        with product.picture.open() as file, Image.open(file) as picture:
            small = ImageOps.exif_transpose(picture).convert("RGB")
    except UnidentifiedImageError as error:
        # It will not become one by trying again: straight to the dead letters.
        raise Reject(f"{product.picture.name} is not a picture.") from error
    small.thumbnail((width, width), Image.Resampling.LANCZOS)
    jpeg = BytesIO()
    small.save(jpeg, "JPEG", quality=85)
    Thumbnail.objects.update_or_create(
        product=product,
        width=width,
        defaults={"image": ContentFile(jpeg.getvalue(), f"{product.pk}-{width}.jpg")},
    )


async def announce_order(job: Job) -> None:
    """Tell the warehouse of an order, once it is not told yet."""
    order = await Order.objects.filter(pk=job.payload["order"]).afirst()
    if order is None:
        raise Reject("The order was withdrawn.")
    if order.announced_at is None:
        await asyncio.to_thread(_post, settings.SHOP_WEBHOOK_URL, order.pk)
        await Order.objects.filter(pk=order.pk).aupdate(announced_at=timezone.now())


def _post(url: str, order: int) -> None:
    request = urllib.request.Request(
        url,
        data=json.dumps({"order": order}).encode(),
        # By this key the warehouse knows an order that is announced again.
        headers={"Content-Type": "application/json", "Idempotency-Key": f"order-{order}"},
    )
    # The warehouse is on this machine: no proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5):
            pass
    except urllib.error.HTTPError as error:
        with error:
            raise WebhookFailed(f"The warehouse answered {error.code} {error.reason}.") from None
    except OSError as error:
        raise WebhookFailed(f"The warehouse cannot be reached: {error}.") from error
