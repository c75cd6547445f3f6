"""Partitions: a trace, or a monitored system; days only for what a day makes.

A table has one current version for each trace or system, so these alone are the partitions of the assets that make tables. A night
is a run of the same assets whose tag :data:`NIGHT_TAG` names the day. It leaves a materialisation of ``night`` in the partition of
that day, so that a missed night is missing there. Dagster copies tags to a run that is executed again.
"""

import dagster as dg

from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.slurm.site import is_site
from pipelines.readers.system import SIMULATED
from pipelines.readers.traces import TRACES, first_night

NIGHT_TAG = "queuecast/night"
"""Tag of a run that is a night: its day, such as 2026-03-01."""

traces = dg.DynamicPartitionsDefinition(name=TRACES)
systems = dg.DynamicPartitionsDefinition(name="systems")
days = dg.DynamicPartitionsDefinition(name="days")
# a day's night is due on that day, at 02:00: so today is a partition, too
_night_days = dg.DailyPartitionsDefinition(start_date=first_night().isoformat(), end_offset=1)
nights_of_traces = dg.MultiPartitionsDefinition({"day": _night_days, "trace": traces})
nights_of_systems = dg.MultiPartitionsDefinition({"day": _night_days, "system": systems})
counter_days = dg.MultiPartitionsDefinition({"day": days, "system": systems})


def night_of(run: dg.DagsterRun) -> tuple[str, str]:
    """Return the trace or system of a run and the day of its night, "" if it is none."""
    return run.tags.get("dagster/partition", ""), run.tags.get(NIGHT_TAG, "")


OF_SITES = {"parity"}
OF_STARTS = {"queue_states", "start_model"}
OF_THE_SIMULATED = {"system_comparison"}


def applicable(job: dg.JobDefinition, name: str) -> list[dg.AssetKey]:
    """Return the assets of ``job`` that apply to the trace or system ``name``.

    A site is replayed where the trace states its machine, models of starts are learned where the catalogue asks for them, and only
    the simulated system has trials.
    """
    entry = load_catalogue().get(name)
    left_out: set[str] = set()
    if entry is None or not (entry.machine and is_site(entry.machine_path)):
        left_out |= OF_SITES
    if entry is None or not entry.starts:
        left_out |= OF_STARTS
    if name != SIMULATED:
        left_out |= OF_THE_SIMULATED
    return sorted(key for key in job.asset_layer.selected_asset_keys if key.to_user_string() not in left_out)
