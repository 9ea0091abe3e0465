"""The shop's own addresses."""

from django.contrib.auth import views as auth
from django.urls import path

from . import views

urlpatterns = [
    path("", views.catalogue, name="catalogue"),
    path("signup/", views.SignUpView.as_view(), name="signup"),
    path("login/", auth.LoginView.as_view(), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("orders/", views.OrderList.as_view(), name="orders"),
    path("orders/<int:pk>/", views.OrderDetail.as_view(), name="order"),
]
