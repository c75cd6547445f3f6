"""Which assets of a job apply to a trace or a system."""

import dagster as dg

from pipelines.ingest.slurm_site import is_site
from pipelines.sources.catalogue import load_catalogue
from pipelines.sources.system import SIMULATED

OF_SITES = {"parity", "what_if"}
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
