"""Settings of the shop: for a developer's own machine, never for a public server.

NOBROKER_DEMO_DATABASE  sqlite (the default), postgresql or mysql
NOBROKER_DEMO_DIR       where the shop keeps its files, instead of testproject/var
SHOP_WEBHOOK_URL        where orders are announced; `manage.py warehouse` listens there
"""

import os
from pathlib import Path

import django
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent
env = os.environ.get

VAR = BASE_DIR / "var"
if env("NOBROKER_DEMO_DIR"):
    # `manage.py demo` clears what is in it, hence a directory of its own.
    VAR = Path(env("NOBROKER_DEMO_DIR")).resolve() / "nobroker-demo"
VAR.mkdir(parents=True, exist_ok=True)

DEBUG = True
SECRET_KEY = env("SHOP_SECRET_KEY", "no secret at all: this shop is open on localhost only")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_nobroker",
    "testproject.shop",
    "testproject.demo",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "testproject.urls"
WSGI_APPLICATION = "testproject.wsgi.application"

SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": VAR / "demo.sqlite3",
    # What a web server and a worker need to share one file; the package's checks ask for it.
    "OPTIONS": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    },
}
POSTGRESQL = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": "nobroker_demo",
    "HOST": env("POSTGRES_HOST", "127.0.0.1"),
    "PORT": env("POSTGRES_PORT", "5432"),
    "USER": env("POSTGRES_USER", "postgres"),
    "PASSWORD": env("POSTGRES_PASSWORD", ""),
}
MYSQL = {
    "ENGINE": "django.db.backends.mysql",
    "NAME": "nobroker_demo",
    "HOST": env("MYSQL_HOST", "127.0.0.1"),
    "PORT": env("MYSQL_PORT", "3306"),
    "USER": env("MYSQL_USER", "root"),
    "PASSWORD": env("MYSQL_PASSWORD", ""),
    "OPTIONS": {"charset": "utf8mb4"},
}
CHOICES = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "mysql": MYSQL}
choice = env("NOBROKER_DEMO_DATABASE") or "sqlite"
if choice not in CHOICES:
    raise ImproperlyConfigured(
        f"NOBROKER_DEMO_DATABASE is {choice!r}; it may be {', '.join(CHOICES)}."
    )
# Every request is one transaction; jobs enqueued in it commit or roll back with it.
DATABASES = {"default": {**CHOICES[choice], "ATOMIC_REQUESTS": True}}

NOBROKER = {
    "VISIBILITY_TIMEOUT": 30.0,
    "QUEUES": {
        "emails": {"HANDLER": "testproject.shop.jobs.send_mail"},
        "thumbnails": {"HANDLER": "testproject.shop.jobs.make_thumbnail"},
        "webhooks": {
            "HANDLER": "testproject.shop.jobs.announce_order",
            # Few and soon, so that a demonstration shows all of them. In earnest: 10, base 5.0.
            "MAX_ATTEMPTS": 3,
            "BACKOFF": {"base": 1.0, "factor": 2.0, "max_delay": 60.0, "jitter": 0.5},
        },
    },
}
if django.VERSION >= (6, 0):
    # Tasks of Django's own framework: see shop/tasks.py. An empty QUEUES allows every name.
    TASKS = {"default": {"BACKEND": "django_nobroker.backend.NobrokerBackend", "QUEUES": []}}
SHOP_WEBHOOK_URL = env("SHOP_WEBHOOK_URL", "http://127.0.0.1:8001/orders/")

# Every mail becomes a file in var/mail.
MAIL_DIR = VAR / "mail"
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {
            "BACKEND": "django.core.mail.backends.filebased.EmailBackend",
            "OPTIONS": {"file_path": MAIL_DIR},
        }
    }
else:
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = MAIL_DIR
DEFAULT_FROM_EMAIL = "The Orchard <hello@orchard.example>"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "catalogue"
LOGOUT_REDIRECT_URL = "catalogue"

MEDIA_ROOT = VAR / "media"
MEDIA_URL = "/media/"
STATIC_URL = "/static/"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
