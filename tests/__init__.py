"""The suite; also the Django app that its models and handlers belong to.

Every process that runs on `tests.settings` passes here first, so this is where warnings become
errors: in the runner, in its parallel processes, and in the workers that tests start.
"""

import warnings

warnings.simplefilter("error")
