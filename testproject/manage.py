#!/usr/bin/env python
"""The shop's command line; works from any directory."""

import os
import sys
from pathlib import Path


def main():
    # Python puts this file's own directory first, where the shop is not `testproject.shop`.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    try:
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
