"""The Dagster definitions of Queuecast: assets, jobs, schedules, sensors and resources.

What is made from what stands in the assets, and nowhere else. :mod:`pipelines.training.night` calls the same functions
in the same order, for nights that are replayed; a test compares what both make.
"""

import os

import dagster as dg

from pipelines.assets import publishing, starts, traces
from pipelines.assets import variability as variability_stages
from pipelines.assets.described import external
from pipelines.assets.sensors import drift, failed_nights, nightly_retraining, nightly_variability_retraining
from pipelines.assets.stages import LakeResource, RegistryResource

os.umask(0o077)  # what is written holds users' names and accounting

_of_a_system = dg.AssetSelection.assets("counters", "control_runs").downstream().materializable()
_of_a_trace = dg.AssetSelection.assets("jobs", "rejected_jobs").downstream().materializable() - _of_a_system

full_run = dg.define_asset_job(
    "full_run",
    selection=_of_a_trace,
    description="One trace from its source to the report: ingest, features, registered model, its simulation, comparison.",
)

variability = dg.define_asset_job(
    "variability",
    selection=_of_a_system,
    description="One monitored system: counters, control runs, features, registered model, and where the system is simulated, trials with both predictors.",
)

nightly = dg.define_asset_job(
    "nightly",
    selection=_of_a_trace,
    description="The night of a day of one trace, which the tag queuecast/night names: a run from what had ended by then, that judges "
    "the champion as served. queuecast run --night DAY does it.",
)

nightly_variability = dg.define_asset_job(
    "nightly_variability",
    selection=_of_a_system,
    description="One night of one monitored system, of the day in the tag queuecast/night: a run with what is new of counters and control runs.",
)


defs = dg.Definitions(
    assets=[
        *dg.load_assets_from_modules([traces, starts, variability_stages, publishing]),
        publishing.night,
        publishing.variability_night,
        *external,
    ],
    jobs=[full_run, variability, nightly, nightly_variability],
    schedules=[nightly_retraining, nightly_variability_retraining],
    sensors=[failed_nights, drift],
    resources={
        "lake": LakeResource(),
        "system_lake": LakeResource(kind="variability"),
        "registry": RegistryResource(),
    },
    # stages are seconds of numpy and numba; a process per stage would cost more than it gains, and a run holds a lock
    executor=dg.in_process_executor,
)
