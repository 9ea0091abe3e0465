"""What the shop sells, and to whom. Customers are Django's own users."""

from decimal import Decimal

from django.conf import settings
from django.core.files.storage import FileSystemStorage
from django.core.validators import MinValueValidator
from django.db import models
from django.urls import reverse
from django.utils import timezone


class Product(models.Model):
    """Something to buy, with the picture that its thumbnails are made from."""

    name = models.CharField(max_length=60, unique=True)
    price = models.DecimalField(
        max_digits=6, decimal_places=2, validators=[MinValueValidator(Decimal("0.01"))]
    )
    picture = models.ImageField(upload_to="products/")

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Thumbnail(models.Model):
    """A product's picture at one width."""

    product = models.ForeignKey(Product, models.CASCADE, related_name="thumbnails")
    width = models.PositiveSmallIntegerField()
    # A job may run twice; the second run writes the same file again, not another beside it.
    image = models.ImageField(
        upload_to="thumbnails/", storage=FileSystemStorage(allow_overwrite=True)
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["product", "width"], name="shop_thumbnail_once"),
        )

    def __str__(self) -> str:
        return f"{self.product} at {self.width} px"


class Order(models.Model):
    """What one customer bought at one time."""

    customer = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="orders")
    placed_at = models.DateTimeField(default=timezone.now)
    # When the warehouse said that it knows of the order.
    announced_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"order {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("order", args=[self.pk])

    @property
    def total(self) -> Decimal:
        return sum((line.cost for line in self.lines.all()), Decimal())


class OrderLine(models.Model):
    """So many of one product, at the price of that day."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, models.PROTECT, related_name="+")
    quantity = models.PositiveSmallIntegerField()
    price = models.DecimalField(max_digits=6, decimal_places=2)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["order", "product"], name="shop_orderline_once"),
        )

    def __str__(self) -> str:
        return f"{self.quantity} x {self.product}"

    @property
    def cost(self) -> Decimal:
        return self.quantity * self.price
