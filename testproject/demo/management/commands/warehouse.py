"""`manage.py warehouse`: the server that the shop announces its orders to."""

import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from testproject.demo.warehouse import Warehouse


class Command(BaseCommand):
    help = "Runs the warehouse that orders are announced to. Half of the calls fail."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8001)
        parser.add_argument("--repaired", action="store_true", help="Let every call succeed.")

    def handle(self, *args: Any, port: int, repaired: bool, **options: Any) -> None:
        with Warehouse(port) as warehouse:
            if repaired:
                warehouse.repair()
            self.stdout.write(f"The warehouse listens at {warehouse.url}; Ctrl-C ends it.")
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                self.stdout.write("")
