"""Rules, defaults and bounds of what people choose about a trace.

The code that applies them is elsewhere: commands declare their options from these, and refuse a wrong one before pandas is imported.
"""

from typing import Literal, get_args

MissingRequest = Literal["drop", "runtime", "queue-max"]
MISSING_REQUEST: tuple[str, ...] = get_args(MissingRequest)
"""What becomes of jobs that state no requested time (:mod:`features.jobs.cleaning`)."""
LARGEST = 1e6
"""Max factor of :mod:`features.jobs.scaling`."""
SHAKE_S = 60
"""Default max seconds by which :mod:`features.jobs.shaking` moves submissions."""
