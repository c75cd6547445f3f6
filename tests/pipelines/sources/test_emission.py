"""What the simulated cluster writes as LDMS files is what it knows: read back as a site's files are, it gives the simulator's own features."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.monitoring.labels import feature_matrix
from features.monitoring.samplers import FEATURES, MORE_FEATURES, SAMPLERS, SITUATION_FEATURES, counter_features
from features.monitoring.situation import Machine
from features.monitoring.windows import WindowFeatures, side_by_side, window_features
from pipelines.ingest.control_runs import read_accounting_runs, read_runs
from pipelines.ingest.ldms_ingest import ingest_counters
from pipelines.ingest.probes import read_probes, read_types
from pipelines.ingest.read import read_file
from pipelines.ingest.topology import read_topology
from pipelines.sources.emission import COUNTERS, JOBS, PROBE_RESULTS, README, RUNS, TOPOLOGY, TYPES, Emitted, emit
from pipelines.storage.counters_store import CountersStore
from pipelines.workflows.variability_table import newest_before, situations_of
from sim.cluster.presets import CONGESTED
from sim.cluster.recorded import ORIGIN_S

SMALL = CONGESTED.but(name="small", nodes=64, nodes_per_leaf=32, noise_leaves=2, uplink=40.0, storage=10.0)


@dataclass(frozen=True)
class Site:
    folder: Path
    emitted: Emitted
    store: CountersStore
    quarantined: int


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three hours of a small cluster, as files and read back."""
    place = tmp_path_factory.mktemp("site")
    emitted = emit(SMALL, place / "files", days=0.125, seed=3, rotate=50, load=0.9)
    store = CountersStore(place / "lake", "small")
    report = ingest_counters(store, [place / "files" / COUNTERS])
    return Site(place / "files", emitted, store, len(report.quarantined))


def windows(site: Site, runs: pd.DataFrame) -> WindowFeatures:
    parts = [window_features(site.store.batches(name), runs, sampler, lag_s=SMALL.lag_s) for name, sampler in SAMPLERS.items()]
    return side_by_side(parts)


def test_the_accounting_read_back_is_the_schedule_and_its_jobs_are_the_control_runs(site: Site) -> None:
    trace, simulated = read_file(site.folder / JOBS, timezone="UTC"), site.emitted.run.runs
    assert trace.origin_unix_s == ORIGIN_S
    for column, of in (("submit_s", "submit_s"), ("wait_s", "wait_s"), ("procs", "nodes"), ("executable", "application")):
        assert trace.jobs[column].tolist() == simulated[of].tolist()
    assert (trace.jobs["runtime_s"] - simulated["runtime_s"]).abs().max() <= 1
    runs = read_accounting_runs(site.folder / JOBS, "(?P<application>.+)", "UTC").runs
    assert runs["nodes"].tolist() == site.emitted.runs["nodes"].tolist()
    assert runs[["run_id", "start_s"]].equals(site.emitted.runs[["run_id", "start_s"]])


def test_features_made_from_the_files_are_the_simulators(site: Site) -> None:
    runs = read_runs(site.folder / RUNS).runs
    types = read_types(site.folder / TYPES).set_index("application")["type"].to_dict()
    sampled = windows(site, runs)
    for scope in ("own", "all"):
        expected = getattr(site.emitted.run, scope)
        matrix = feature_matrix(getattr(sampled, scope), read_probes(site.folder / PROBE_RESULTS), types, runs)
        assert tuple(matrix.columns) == tuple(expected.columns) == FEATURES
        np.testing.assert_allclose(matrix.to_numpy(), expected.to_numpy(), rtol=1e-12, atol=0)
    assert len(runs) > 100
    assert runs["runtime_s"].tolist() == site.emitted.run.runs["runtime_s"].tolist()
    assert runs["input"].str.startswith("simulated").all()
    assert "SIMULATED" in (site.folder / README).read_text()
    assert not expected.isna().any().any()
    assert (site.emitted.run.own[counter_features()[0]] != site.emitted.run.all[counter_features()[0]]).any()


def test_the_newest_samples_and_the_situation_made_from_the_files_are_the_simulators(site: Site) -> None:
    runs = read_runs(site.folder / RUNS).runs.sample(frac=1, random_state=0)
    machine = Machine.of(read_topology(site.folder / TOPOLOGY), read_types(site.folder / TYPES))
    expected = site.emitted.run.situation
    newest = newest_before(site.store, runs, pd.Series(dict.fromkeys(SAMPLERS, float(SMALL.interval_s))), SMALL.lag_s)
    features = newest.join(situations_of(runs, machine)).loc[site.emitted.runs["run_id"]]
    assert tuple(features.columns) == tuple(expected.columns) == MORE_FEATURES
    for name in MORE_FEATURES:
        np.testing.assert_allclose(features[name], expected[name], rtol=1e-12, atol=0, err_msg=name)
    assert (expected[[*SITUATION_FEATURES]].nunique() > 1).sum() > 9
    assert site.emitted.runs["start_s"].duplicated().any()  # of which the later ones see the earlier ones


def test_no_two_runs_share_a_node_and_nobody_has_those_of_the_noise_job(site: Site) -> None:
    runs = site.emitted.runs.assign(end_s=lambda table: table["start_s"] + table["runtime_s"])
    noise = {"node0001", "node0002", "node0033", "node0034"}
    rows = runs.sort_values("start_s").explode("nodes")
    assert not set(rows["nodes"]) & noise
    assert len(set(rows["nodes"])) == 48  # three at once
    for _, of_node in rows.groupby("nodes"):
        assert (of_node["start_s"].to_numpy()[1:] >= of_node["end_s"].to_numpy()[:-1]).all()


def test_counters_never_fall_and_every_node_is_there_every_time(site: Site) -> None:
    assert site.quarantined == 0
    counts = windows(site, site.emitted.runs).counts
    for name, sampler in SAMPLERS.items():
        tables = [batch.to_pandas() for batch in site.store.batches(name)]
        table = pd.concat(tables)
        assert len(table) * len(SAMPLERS) == site.emitted.samples
        assert (table.groupby("time_s").size() == SMALL.nodes).all()
        assert set(np.diff(np.sort(table["time_s"].unique()))) == {float(SMALL.interval_s)}
        growing = [metric for metric in sampler.metrics if metric not in sampler.gauges]
        grown = table.sort_values(["node", "time_s"]).groupby("node", observed=True)[growing].diff().min().min()
        assert grown >= 0
        assert counts[f"{name}.reset"] == counts[f"{name}.wrap_32"] == counts[f"{name}.duplicate"] == 0
        assert counts[f"{name}.first"] == SMALL.nodes * len(growing)


def test_files_are_rotated_and_named_after_their_first_sample(site: Site) -> None:
    files = sorted((site.folder / COUNTERS).glob("opa_info.*"))
    assert len(files) * len(SAMPLERS) == site.emitted.files > 3 * 5
    assert not list((site.folder / COUNTERS).glob(".*"))
    first = files[1].read_text().splitlines()
    assert first[0] == "#Time,Time_usec,ProducerName,component_id,job_id," + ",".join(SAMPLERS["opa_info"].metrics)
    assert first[1].split(",")[0] == files[1].suffix[1:] + ".000000"
    assert len(first) == 1 + 50 * SMALL.nodes


def test_the_same_seed_writes_the_same_bytes_packed_or_not(tmp_path: Path) -> None:
    given = {"days": 0.01, "seed": 9, "rotate": 1000}
    for name, packed in (("plain", False), ("one", True), ("two", True)):
        emit(SMALL, tmp_path / name, packed=packed, **given)
    for plain in (tmp_path / "plain" / COUNTERS).iterdir():
        one, two = (tmp_path / name / COUNTERS / f"{plain.name}.gz" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
        assert gzip.decompress(one.read_bytes()) == plain.read_bytes()


@pytest.mark.slow
def test_a_few_control_runs_of_each_application_can_be_had(tmp_path: Path) -> None:
    emitted = emit(SMALL, tmp_path / "few", days=0.125, seed=3, each=4, packed=True)
    assert (emitted.run.runs["application"].value_counts() == 4).all()
    assert len(emitted.run.own) == len(emitted.runs) == 28
    assert [len(nodes) for nodes in emitted.run.places] == [len(nodes) for nodes in emitted.runs["nodes"]]


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "measured.csv").write_text("")
    with pytest.raises(InputError, match="not empty"):
        emit(SMALL, tmp_path, days=0.01, seed=0)
    assert [path.name for path in tmp_path.iterdir()] == ["measured.csv"]


def test_what_is_interrupted_leaves_no_half_file(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        emit(SMALL, tmp_path / "files", days=0.125, seed=3, rotate=10_000, progress=stop)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
