"""Words that several pages and terminals share."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np

from features.deferred import pd
from sim.metrics.formats import number, sentence
from sim.metrics.schedule_metrics import nothing_waits

_UNITS = {"d": 86_400, "h": 3_600, "min": 60}


def not_modelled(machine: str = "") -> str:
    """Return what schedules on one pool, or on a ``machine`` of clusters, leave out."""
    if machine:
        return f"Not modelled: partitions and disk. Jobs run on the clusters of the machine {machine}."
    return (
        "Not modelled: partitions, nodes, memory and GPUs. Jobs run on one pool of processors that are all alike, so waits for anything but "
        "processors do not come up here."
    )


def kind_of_jobs(generated: bool) -> str:
    """Return the words that follow a number of jobs."""
    return ", generated" if generated else " of a real trace"


def requests_warning(count: int, jobs: int, baseline: tuple[str, str]) -> str:
    """Return a warning that ``count`` of ``jobs`` have their runtime as requested time."""
    which = f"all {jobs:,} jobs" if count == jobs else f"{count:,} of {jobs:,} jobs ({number(count / jobs, 'share')})"
    knowing = f", and so the baseline {' / '.join(baseline)}," if baseline[1] == "requested" else ""
    return (
        f"The requested time is the runtime: for {which} no request was recorded, and the runtime stands in for it. For these jobs the "
        f"predictor requested{knowing} is clairvoyant, and no predictor can over-predict, as predictions end at the request."
    )


def nothing_waited(comparison: pd.DataFrame, procs: int) -> str:
    """Return a sentence if no job waits in any simulated schedule of the comparison, else ""."""
    simulated = comparison[comparison["predictor"] != ""]
    values = simulated.pivot_table(index=["scheduler", "predictor", "correction"], columns="metric", values="value")
    return sentence(nothing_waits(values.to_dict("records"), procs))


def brief(name: str) -> str:
    """Return a short name for figures: no formula, and a registered model by its trace."""
    return re.sub(r"^registry:runtime-", "registered: ", re.sub(r"^SCORE\(.*?\)-(?=[A-Z])", "SCORE(…)-", name))


def takes_correction(scheduler: str) -> bool:
    """Tell whether predictions can expire under ``scheduler``: not under ``Harm``.

    Only the beginning of the name decides, since tables may have any name.
    """
    return not scheduler.lower().startswith("harm")


def instant(at_s: int, origin_unix_s: int | None) -> str:
    """Return a second of the trace as a date in UTC, or as a number without an origin."""
    if origin_unix_s is None:
        return f"second {at_s:,} of the trace"
    return f"{datetime.fromtimestamp(origin_unix_s + at_s, UTC):%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, or a dash if it is not finite."""
    unit, size = next((named for named in _UNITS.items() if seconds >= 2 * named[1]), ("s", 1))
    return f"{seconds / size:,.{int(size > 1)}f} {unit}" if np.isfinite(seconds) else "–"
