"""What the simulated cluster writes as LDMS files is what it knows: read back as a site's files are, it gives the simulator's own features."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.errors import InputError
from features.monitoring.samplers import FEATURES, MORE_FEATURES, PROBE_FEATURES, SAMPLERS, counter_features
from features.monitoring.windows import WindowFeatures, side_by_side, window_features
from pipelines.lake.counters import CountersStore
from pipelines.lake.tables import Lake
from pipelines.readers.control_runs import read_accounting_runs, read_runs
from pipelines.readers.ldms.ingest import ingest_counters
from pipelines.readers.read import read_file
from pipelines.readers.simulated_site import COUNTERS, JOBS, PROBE_RESULTS, RUNS, TOPOLOGY, TYPES, emit
from pipelines.readers.systems import remember_system
from pipelines.studies.monitored import pack_table, read_counters, read_tables, training_table
from sim.cluster.presets import CONGESTED
from sim.cluster.recorded import ORIGIN_S, Recorded
from sim.cluster.users import CONTROL, population, submissions

SMALL = CONGESTED.but(name="small", nodes=64, nodes_per_leaf=32, noise_leaves=2, uplink=40.0, storage=10.0)


@dataclass(frozen=True)
class Site:
    folder: Path
    recorded: Recorded
    store: CountersStore
    quarantined: int


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three hours of a small cluster, as files and read back."""
    place = tmp_path_factory.mktemp("site")
    recorded = emit(SMALL, place / "files", days=0.3, seed=3)
    store = CountersStore(place / "lake", "small")
    report = ingest_counters(store, [place / "files" / COUNTERS])
    return Site(place / "files", recorded, store, len(report.quarantined))


def windows(site: Site, runs: pd.DataFrame) -> WindowFeatures:
    parts = [window_features(site.store.batches(name), runs, sampler, lag_s=SMALL.lag_s) for name, sampler in SAMPLERS.items()]
    return side_by_side(parts)


def test_the_accounting_read_back_is_what_users_submitted_and_when_it_ran(site: Site) -> None:
    trace, recorded = read_file(site.folder / JOBS, timezone="UTC"), site.recorded
    assert trace.origin_unix_s == ORIGIN_S
    run = recorded.run.runs
    submitted = submissions(population(3), 0.3, 3, procs=SMALL.procs)
    started = submitted[submitted["job_id"].isin(run["job_id"])].reset_index(drop=True)
    assert len(started) > 100
    same = ["job_id", "submit_s", "procs", "requested_s", "user", "group", "executable"]
    pd.testing.assert_frame_equal(trace.jobs[same], started[same], check_dtype=False, check_categorical=False)
    assert trace.jobs["wait_s"].tolist() == run["wait_s"].tolist()
    ended = run["start_s"] + run["runtime_s"] <= 0.3 * DAY_S
    assert trace.jobs["runtime_s"].notna().tolist() == ended.tolist()
    assert 0 < (~ended).sum() < 10, "the last jobs are still running"
    assert (trace.jobs["runtime_s"] - run["runtime_s"])[ended].abs().max() <= 1
    runs = read_runs(site.folder / RUNS).runs
    control = trace.jobs[(trace.jobs["user"] == CONTROL) & trace.jobs["runtime_s"].notna()]
    assert runs["run_id"].tolist() == control["job_id"].astype(str).tolist()
    assert trace.jobs["user"].nunique() > 3


def test_runs_keep_their_exact_runtime(site: Site) -> None:
    recorded = site.recorded
    assert read_runs(site.folder / RUNS).runs["runtime_s"].tolist() == recorded.runs["runtime_s"].tolist()
    assert (recorded.jobs["Cluster"] == "simulated-small").all()
    assert (recorded.run.own[counter_features()[0]] != recorded.run.all[counter_features()[0]]).any()


def table_of(home: Path, folder: Path) -> pd.DataFrame:
    """Ingest a site's files as ``variability ingest`` does; return the features of control runs and users' jobs."""
    named = {"runs": RUNS, "accounting": JOBS, "probes": PROBE_RESULTS, "types": TYPES, "topology": TOPOLOGY}
    places = {name: str(folder / file) for name, file in named.items()}
    given = {"counters": (str(folder / COUNTERS),), "time_zone": "UTC", "lag_s": float(SMALL.lag_s), **places}
    small = remember_system(home, "small", given)
    read_counters(home, small)
    read_tables(Lake(home / "lake"), small)
    return pack_table(training_table(home, "small"))[0].set_index(["scope", "run_id"])


@pytest.fixture(scope="module")
def features(site: Site, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return table_of(tmp_path_factory.mktemp("home"), site.folder)


def test_the_table_has_every_users_job_with_what_the_simulator_saw(site: Site, features: pd.DataFrame) -> None:
    recorded = site.recorded
    names = recorded.run.runs["job_id"].astype(str)
    control = names.isin(recorded.runs["run_id"]).to_numpy()
    for scope in ("own", "all"):
        table = features.loc[scope].loc[names]
        assert table["control"].tolist() == control.tolist()
        assert table["user"].tolist() == recorded.submitted["user"].astype(str).tolist()
        assert table["application"].tolist() == recorded.submitted["executable"].astype(str).tolist()
        assert table["job_id"].tolist() == recorded.submitted["job_id"].tolist()
        expected = pd.concat([getattr(recorded.run, scope), recorded.run.situation], axis=1)
        expected.loc[~control, list(PROBE_FEATURES)] = np.nan  # the site probes before its control runs alone
        columns = [name for name in expected if not name.startswith("offered.")]
        np.testing.assert_allclose(table[columns], expected[columns], rtol=1e-12, atol=0)
        offered = list(
            set(expected) - set(columns)
        )  # the site knows usual rates on 16 nodes, the simulator on as many as there are
        np.testing.assert_allclose(table[offered], expected[offered], rtol=0.3, atol=0)
    assert (~control).sum() > 10


def test_no_feature_of_a_job_sees_what_follows_its_start(site: Site, features: pd.DataFrame, tmp_path: Path) -> None:
    shutil.copytree(site.folder, tmp_path / "files")
    begins = site.recorded.run.runs["start_s"].quantile(0.7)
    cut = int(ORIGIN_S + begins)
    for path in (tmp_path / "files" / COUNTERS).iterdir():
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        later = [index for index, line in enumerate(lines) if line[0] != "#" and int(line.split(".")[0]) >= cut]
        for index in later:
            head, values = lines[index].split(",")[:5], lines[index].split(",")[5:]
            lines[index] = ",".join([*head, *("9" + value for value in reversed(values))])
        path.write_text("\n".join(lines) + "\n")
    jobs = pd.read_csv(tmp_path / "files" / JOBS)
    start, end = (pd.to_datetime(jobs[name], errors="coerce").astype("datetime64[s]").astype(np.int64) for name in ("Start", "End"))
    jobs.loc[end > cut, ["State", "End"]] = ["RUNNING", "Unknown"]
    jobs[start <= cut].to_csv(tmp_path / "files" / JOBS, index=False)
    changed = table_of(tmp_path / "home", tmp_path / "files")
    before = [name for name in changed.index if name in features.index and changed.loc[name, "start_s"] <= cut]
    after = [name for name in changed.index if changed.loc[name, "start_s"] > cut]
    columns = [*FEATURES, *MORE_FEATURES]
    pd.testing.assert_frame_equal(changed.loc[before, columns], features.loc[before, columns], check_exact=True)
    assert min(len(before), len(after)) > 20
    assert not changed.loc[after, columns].equals(features.loc[after, columns])


def test_no_two_jobs_share_a_node_and_nobody_has_those_of_the_noise_job(site: Site) -> None:
    jobs = read_accounting_runs(site.folder / JOBS, "(?P<application>.+)", "UTC").runs
    rows = jobs.assign(end_s=jobs["start_s"] + jobs["runtime_s"]).sort_values("start_s").explode("nodes")
    assert not set(rows["nodes"]) & {"node0001", "node0002", "node0033", "node0034"}
    assert len(set(rows["nodes"])) == SMALL.procs
    for _, of_node in rows.groupby("nodes"):
        assert (of_node["start_s"].to_numpy()[1:] >= of_node["end_s"].to_numpy()[:-1]).all()


def test_counters_never_fall_and_every_node_is_there_every_time(site: Site) -> None:
    assert site.quarantined == 0
    counts = windows(site, site.recorded.runs).counts
    for name, sampler in SAMPLERS.items():
        tables = [batch.to_pandas() for batch in site.store.batches(name)]
        table = pd.concat(tables)
        assert (table.groupby("time_s").size() == SMALL.nodes).all()
        assert set(np.diff(np.sort(table["time_s"].unique()))) == {float(SMALL.interval_s)}
        growing = [metric for metric in sampler.metrics if metric not in sampler.gauges]
        grown = table.sort_values(["node", "time_s"]).groupby("node", observed=True)[growing].diff().min().min()
        assert grown >= 0
        assert counts[f"{name}.reset"] == counts[f"{name}.wrap_32"] == counts[f"{name}.duplicate"] == 0
        assert counts[f"{name}.first"] == SMALL.nodes * len(growing)


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        emit(SMALL, tmp_path / name, days=0.01, seed=9)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name / COUNTERS).iterdir()} for name in ("one", "two"))
    assert one == two


def test_a_day_more_adds_what_a_longer_record_has(tmp_path: Path) -> None:
    emit(SMALL, tmp_path / "daily", days=0.1, seed=9)
    before = {path.name: path.read_bytes() for path in (tmp_path / "daily" / COUNTERS).iterdir()}
    emit(SMALL, tmp_path / "daily", days=0.2, seed=9)
    emit(SMALL, tmp_path / "whole", days=0.2, seed=9)
    for name in (JOBS, RUNS, PROBE_RESULTS):
        assert (tmp_path / "daily" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    for name in SAMPLERS:
        daily, whole = (
            [
                line
                for part in sorted((tmp_path / folder / COUNTERS).glob(f"{name}.*"))
                for line in gzip.decompress(part.read_bytes()).splitlines()
                if not line.startswith(b"#")
            ]
            for folder in ("daily", "whole")
        )
        assert daily == whole
    assert all((tmp_path / "daily" / COUNTERS / name).read_bytes() == content for name, content in before.items())
    with pytest.raises(InputError, match="already holds other data"):
        emit(SMALL, tmp_path / "daily", days=0.3, seed=8)
