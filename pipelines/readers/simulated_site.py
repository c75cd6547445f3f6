"""The embedded default: a simulated cluster's monitoring, written and read as a site's.

The cluster is the preset ``congested`` at a quarter of its size, at first for sixteen days and a half, up to a midnight, of
which the last two days and a half are monitored. Files stay until the settings change. Its accounting is the trace of the same name.
"""

import shutil
from pathlib import Path

from pipelines.lake.home import local_home
from pipelines.lake.locks import held
from pipelines.lake.places import is_url, made_folder, move
from pipelines.lake.run_store import TABLES
from pipelines.lake.tables import Lake
from pipelines.lake.version import COUNTERS as COUNTERS_SUBJECT
from pipelines.lake.version import subject_of
from pipelines.readers.emission import COUNTERS, JOBS, PROBE_RESULTS, RUNS, SETTINGS, TOPOLOGY, TYPES, days_of, emit, settings_of
from pipelines.readers.system import SIMULATED, System
from sim.cluster.presets import CONGESTED_SMALL
from sim.cluster.recorded import ORIGIN_S

CLUSTER, DAYS, MONITORED_FROM, SEED = CONGESTED_SMALL, 16.5, 14.0, 0
"""The cluster, days of its accounting at a first run, the day from which counters are kept, and the seed."""
_NOON = ORIGIN_S + 43_200
_CLASSIFIERS = ("ordinal", "extra-trees")
"""A classifier of delays, and one as published beside it; both read the counters of all nodes.

Chosen, like the share of control runs, on simulations of other seeds than those that are shown.
"""


def simulated_system(home: Path) -> System:
    """Return the system whose files :func:`simulate_site` writes."""
    folder = _folder(home)
    return System(
        name=SIMULATED,
        counters=(str(folder / COUNTERS),),
        runs=str(folder / RUNS),
        accounting=str(folder / JOBS),
        time_zone="UTC",
        probes=str(folder / PROBE_RESULTS),
        types=str(folder / TYPES),
        topology=str(folder / TOPOLOGY),
        lag_s=CLUSTER.lag_s,
        scope="all",
        classifiers=_CLASSIFIERS,
    )


def simulate_site(home: Path, days: float = 0.0) -> bool:
    """Write the simulated cluster's files up to ``days`` days; tell whether any was written.

    There are at least ``DAYS``. Days that are there stay, and only missing ones are added. Files of other settings, such as an earlier version's, are removed
    together with the tables read from them: they hold runs of another cluster.
    """
    folder = _folder(home)
    settings = settings_of(CLUSTER, SEED, origin_s=_NOON, monitored_from=MONITORED_FROM)
    made_folder(folder.parent)
    with held(folder.with_suffix(".lock")):
        own_days = days_of(folder / SETTINGS, settings)
        wanted = max(days, DAYS, own_days)
        if own_days == wanted:
            return False
        new_folder = folder if own_days else folder.with_suffix(".new")
        if not own_days:
            shutil.rmtree(new_folder, ignore_errors=True)
        emit(CLUSTER, new_folder, days=wanted, seed=SEED, origin_s=_NOON, monitored_from=MONITORED_FROM, packed=True)
        if not own_days:
            lake = Lake(home / "lake")
            for table in (COUNTERS_SUBJECT, *TABLES):
                versions = lake.versions(subject_of(table, SIMULATED))
                if gone := versions.current().files:
                    versions.commit({}, gone=[*gone])
            shutil.rmtree(folder, ignore_errors=True)
            move(new_folder, folder)
        return True


def accounting_file(home: Path) -> Path:
    """Return the accounting that :func:`simulate_site` writes."""
    return _folder(home) / JOBS


def _folder(home: Path) -> Path:
    """Return this machine's folder of the files."""
    return (local_home() if is_url(home) else home) / "simulated" / "congested-small"
