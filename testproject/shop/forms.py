"""The shop's two forms."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.forms import UserCreationForm

from .models import Product


class SignUpForm(UserCreationForm):
    email = forms.EmailField(help_text="Your welcome goes here.")

    class Meta(UserCreationForm.Meta):
        model = get_user_model()
        fields = ("username", "email")


class OrderForm(forms.Form):
    """How many of each product."""

    def __init__(self, products: Iterable[Product], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.products = {f"product-{product.pk}": product for product in products}
        for name, product in self.products.items():
            self.fields[name] = forms.IntegerField(
                label=product.name,
                min_value=0,
                max_value=99,
                required=False,
                widget=forms.NumberInput(attrs={"placeholder": "0"}),
            )

    def clean(self) -> dict[str, Any]:
        super().clean()
        if not self.errors and not self.basket():
            raise forms.ValidationError("Choose something first.")
        return self.cleaned_data

    def basket(self) -> dict[Product, int]:
        chosen = self.cleaned_data
        return {product: chosen[name] for name, product in self.products.items() if chosen[name]}

    def shelf(self) -> list[tuple[Product, forms.BoundField]]:
        """Return each product with its field, for the template."""
        return [(product, self[name]) for name, product in self.products.items()]
