"""The embedded default: a simulated cluster's monitoring, written and read as a site's.

The cluster is the preset ``congested`` at a quarter of its size, for a day and a half. Files stay until the settings change.
"""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from pipelines.sources.emission import COUNTERS, PROBE_RESULTS, RUNS, TYPES, emit
from pipelines.sources.system import SIMULATED, System
from pipelines.storage.home import local_home
from pipelines.storage.lake import Lake
from pipelines.storage.locks import held
from pipelines.storage.places import is_url, made_folder, move, write
from pipelines.storage.run_store import PROBE_RESULTS as PROBE_TABLE
from pipelines.storage.run_store import RUNS as RUN_TABLE
from pipelines.storage.run_store import TYPES as TYPE_TABLE
from pipelines.storage.version import COUNTERS as COUNTERS_SUBJECT
from pipelines.storage.version import subject_of
from sim.cluster.presets import CONGESTED_SMALL
from sim.cluster.recorded import ORIGIN_S

CLUSTER, DAYS, EACH, SEED = CONGESTED_SMALL, 1.5, 100, 0
"""The cluster, simulated days, control runs of each application, and the seed."""
_NOON = ORIGIN_S + 43_200
_SETTINGS = "settings.json"
_CLASSIFIERS = ("extra-trees", "knn")
"""Two candidates; a site's default is all five."""


def simulated_system(home: Path) -> System:
    """Return the system whose files :func:`simulate_site` writes."""
    folder = _folder(home)
    return System(
        name=SIMULATED,
        counters=(str(folder / COUNTERS),),
        runs=str(folder / RUNS),
        probes=str(folder / PROBE_RESULTS),
        types=str(folder / TYPES),
        lag_s=CLUSTER.lag_s,
        classifiers=_CLASSIFIERS,
    )


def simulate_site(home: Path) -> bool:
    """Write the simulated cluster's files, if missing; tell whether they were written.

    Files of other settings, such as an earlier version's, are removed together with the tables read from them: they hold runs of
    another cluster.
    """
    folder, shared = _folder(home), _folder(home, shared=True) / _SETTINGS
    wanted = json.dumps({"cluster": asdict(CLUSTER), "days": DAYS, "each": EACH, "seed": SEED}, indent=1)
    made_folder(folder.parent)
    with held(folder.with_suffix(".lock")):
        there = folder / _SETTINGS
        read = shared.exists() and shared.read_text(encoding="utf-8") == wanted
        if read and there.exists() and there.read_text(encoding="utf-8") == wanted:
            return False
        new_folder = folder.with_suffix(".new")
        shutil.rmtree(new_folder, ignore_errors=True)
        emit(CLUSTER, new_folder, days=DAYS, seed=SEED, each=EACH, origin_s=_NOON, packed=True)
        write(new_folder / _SETTINGS, wanted)
        if not read:
            lake = Lake(home / "lake")
            for table in (COUNTERS_SUBJECT, RUN_TABLE, PROBE_TABLE, TYPE_TABLE):
                versions = lake.versions(subject_of(table, SIMULATED))
                if gone := versions.current().files:
                    versions.commit({}, gone=[*gone])
        shutil.rmtree(folder, ignore_errors=True)
        move(new_folder, folder)
        if shared != there:
            write(shared, wanted)
        return True


def _folder(home: Path, shared: bool = False) -> Path:
    """Return this machine's folder of the files, or that of a shared store's settings."""
    return (local_home() if is_url(home) and not shared else home) / "simulated" / "congested-small"
