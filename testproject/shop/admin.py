"""The shop's side of the Django admin. A new picture gets new thumbnails."""

from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest

from .catalogue import enqueue_thumbnails
from .models import Order, OrderLine, Product


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ("name", "price", "picture")
    search_fields = ("name",)

    def save_model(self, request: HttpRequest, obj: Product, form: ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "picture" in form.changed_data:
            enqueue_thumbnails(obj)


class OrderLineInline(admin.TabularInline):
    model = OrderLine
    extra = 0


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ("__str__", "customer", "placed_at", "announced_at")
    list_filter = ("announced_at",)
    date_hierarchy = "placed_at"
    inlines = (OrderLineInline,)
