"""The pages. ATOMIC_REQUESTS makes each request one transaction, and jobs are part of it."""

from typing import Any

from django.contrib.auth import login
from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.auth.views import redirect_to_login
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy
from django.views.decorators.http import require_http_methods
from django.views.generic import CreateView, DetailView, ListView

from django_nobroker import Queue

from .catalogue import LARGE, SMALL
from .forms import OrderForm, SignUpForm
from .models import Order, Product, Thumbnail
from .ordering import jobs_of, place_order


class SignUpView(CreateView):
    form_class = SignUpForm
    template_name = "shop/signup.html"
    success_url = reverse_lazy("catalogue")

    def form_valid(self, form: SignUpForm) -> HttpResponse:
        response = super().form_valid(form)
        user = self.object
        # No on_commit: if this request fails after here, there is neither a user nor a mail.
        Queue("emails").enqueue({"mail": "welcome", "user": user.pk}, subject=user)
        login(self.request, user)
        return response


@require_http_methods(["GET", "HEAD", "POST"])
def catalogue(request: HttpRequest) -> HttpResponse:
    form = OrderForm(_products(LARGE), request.POST or None)
    if request.method == "POST":
        if not request.user.is_authenticated:
            return redirect_to_login(reverse("catalogue"))
        if form.is_valid():
            return redirect(place_order(request.user, form.basket()))
    return render(request, "shop/catalogue.html", {"form": form})


class OrderList(LoginRequiredMixin, ListView):
    template_name = "shop/order_list.html"

    def get_queryset(self) -> QuerySet[Order]:
        return self.request.user.orders.prefetch_related("lines__product")


class OrderDetail(LoginRequiredMixin, DetailView):
    template_name = "shop/order_detail.html"

    def get_queryset(self) -> QuerySet[Order]:
        products = Prefetch("lines__product", _products(SMALL))
        return self.request.user.orders.prefetch_related("lines", products)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        jobs = jobs_of(self.object)
        moving = any(job.state in ("ready", "leased") for job in jobs)
        return super().get_context_data(jobs=jobs, moving=moving, **kwargs)


def _products(width: int) -> QuerySet[Product]:
    """Return the products, each with its thumbnail of that width, if it is made yet."""
    thumbnails = Thumbnail.objects.filter(width=width)
    return Product.objects.prefetch_related(Prefetch("thumbnails", thumbnails, to_attr="small"))
