"""Settings of the processes that these tests start: the suite's, changed as a test asks.

NOBROKER_TEST_CHANGES  JSON: {"NOBROKER": ..., "DATABASE": ..., "DEBUG": ...}
"""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

_changes = json.loads(os.environ.get("NOBROKER_TEST_CHANGES") or "{}")

DEBUG = _changes.get("DEBUG", False)
NOBROKER = _changes.get("NOBROKER", {})

for _name, _value in _changes.get("DATABASE", {}).items():
    if isinstance(_value, dict):
        DATABASES["default"].setdefault(_name, {}).update(_value)
    else:
        DATABASES["default"][_name] = _value
