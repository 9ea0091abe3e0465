"""A small fruit shop that gives its slow work to django-nobroker."""
