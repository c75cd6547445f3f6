"""Replays on recorded counters: they see nothing that came later, and without decisions they are the record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from features.monitoring.labels import BINARY, baselines, labels, z_scores
from features.monitoring.samplers import DELAY_FEATURES
from features.monitoring.situation import jobs_of
from models.variability.model import fit
from models.variability.unseen import Unseen
from pipelines.ingest.ldms_ingest import ingest_counters
from pipelines.ingest.read import read_file
from pipelines.sources.emission import JOBS, ORIGIN_S, emit
from pipelines.sources.system import System
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.lake import Lake
from pipelines.storage.run_store import RUNS, application_types, machine_of, stored
from pipelines.workflows.monitored import METRICS, VARYING, Moments, Monitored, replayed
from pipelines.workflows.variability_ingest import read_tables
from pipelines.workflows.variability_table import training_table
from sim.cluster.presets import CONGESTED

SMALL = CONGESTED.but(name="small", nodes=64, nodes_per_leaf=16, noise_leaves=2, uplink=40.0, storage=10.0, interval_s=60)
CHANGE_S = ORIGIN_S + 3 * 3600
SCHEDULER = "EASY+RUSH(model=registered,patience=300,cutoff=0.05)"


class Site:
    """Five hours of a small cluster as files: as they are, and with other counters from the third hour on."""

    def __init__(self, place: Path) -> None:
        files = place / "files"
        emit(SMALL, files, days=0.2, seed=3)
        other = place / "changed"
        other.mkdir()
        for path in (files / "counters").iterdir():
            head, *lines = path.read_text().splitlines()
            (other / path.name).write_text("\n".join([head, *map(changed, lines)]) + "\n")
        places = {"accounting": str(files / JOBS), "types": str(files / "types.csv"), "topology": str(files / "topology.conf")}
        self.lake = Lake(place / "lake")
        read_tables(self.lake, System(name="as-it-was", job_name="(?P<application>.+)", time_zone="UTC", **places))
        self.trace = clean(read_file(files / JOBS, timezone="UTC"), SMALL.procs)
        self.runs = stored(self.lake, RUNS, "as-it-was")
        self.stores = {name: CountersStore(self.lake.root, name) for name in ("as-it-was", "changed")}
        ingest_counters(self.stores["as-it-was"], [files / "counters"])
        ingest_counters(self.stores["changed"], [other])
        table = training_table(place, "as-it-was", ("all",))
        label = labels(
            z_scores(
                table.runs["application"], table.runs["runtime_s"], baselines(table.runs["application"], table.runs["runtime_s"])
            )
        )
        model = fit("extra-trees", table.features["all"], label, seed=0, columns=DELAY_FEATURES)
        self.unseen = Unseen.of(model, table.features["all"], table.runs, BINARY, np.inf)

    def moments(self, name: str) -> Moments:
        types, machine = application_types(self.lake, "as-it-was"), machine_of(self.lake, "as-it-was")
        return Moments(self.stores[name], DELAY_FEATURES, types, machine, float(SMALL.lag_s))

    def replay(self, name: str) -> Monitored:
        return replayed(self.trace, self.runs, self.moments(name), self.unseen, SCHEDULER)


def changed(line: str) -> str:
    time, *rest = line.split(",")
    if float(time) < CHANGE_S:
        return line
    return ",".join([time, *rest[:4], *(str(7 * int(float(value)) + 3) for value in rest[4:])])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@pytest.mark.slow
def test_no_moment_sees_a_later_counter(site: Site) -> None:
    one, other = site.moments("as-it-was"), site.moments("changed")
    jobs = jobs_of(site.runs)
    for seconds in (-7200, -61, -1, 0, 1, SMALL.lag_s):
        at = CHANGE_S + seconds
        np.testing.assert_array_equal(one.row(jobs[0], at, jobs[1:4]), other.row(jobs[0], at, jobs[1:4]))
    later = CHANGE_S + SMALL.lag_s + 120
    assert (one.row(jobs[0], later, jobs[1:4]) != other.row(jobs[0], later, jobs[1:4])).any()


@pytest.mark.slow
def test_no_decision_sees_a_later_counter_and_without_decisions_the_replay_is_the_record(site: Site) -> None:
    plain, other = site.replay("as-it-was"), site.replay("changed")
    for name in ("EASY", SCHEDULER):
        before, columns = plain.runs[f"{name} start_s"] <= CHANGE_S, [f"{name} start_s", f"{name} chance"]
        assert 20 < before.sum() < len(before)
        assert before.equals(other.runs[f"{name} start_s"] <= CHANGE_S)
        pd.testing.assert_frame_equal(plain.runs.loc[before, columns], other.runs.loc[before, columns])
    assert not plain.runs.equals(other.runs)
    assert plain.counts["skips"] > 0
    jobs, table = site.trace.jobs, plain.table.set_index("metric")
    assert plain.jobs == len(jobs) == len(plain.runs)
    assert table.loc["mean_wait_s", "baseline"] == pytest.approx(jobs["wait_s"].mean())
    recorded = site.trace.origin_unix_s + jobs["submit_s"] + jobs["wait_s"]
    assert plain.runs["EASY start_s"].tolist() == recorded.tolist()
    assert [*table.index] == [VARYING, *METRICS]
    both = plain.runs[["EASY chance", f"{SCHEDULER} chance"]].dropna()
    assert table.loc[VARYING, ["baseline", "value"]].tolist() == pytest.approx(both.sum().tolist())
    assert len(both) > len(jobs) - 5  # the last starts are delayed beyond the last counters


@pytest.mark.slow
def test_what_does_not_belong_together_is_refused(site: Site) -> None:
    def replaying(trace: CleanTrace, runs: pd.DataFrame, scheduler: str) -> None:
        replayed(trace, runs, site.moments("as-it-was"), site.unseen, scheduler)

    for name in ("EASY", "EASY+RUSH(model=oracle)", "JustBF+RUSH(model=registered)", "EASY+RUSH(model=registered,classes=little)"):
        with pytest.raises(InputError, match=r"is not EASY\+RUSH\(model=registered\), with skips, patience, every or cutoff"):
            replaying(site.trace, site.runs, name)
    with pytest.raises(InputError, match="no control run with known nodes is a job of jobs by number and start"):
        replaying(site.trace, site.runs.assign(start_s=site.runs["start_s"] + 1), SCHEDULER)
    with pytest.raises(InputError, match="no job was submitted while counters of as-it-was were sampled"):
        replaying(clean(read_file(_moved(site), timezone="UTC"), SMALL.procs), site.runs, SCHEDULER)


def _moved(site: Site) -> Path:
    """The accounting, a year later."""
    path = site.lake.root.parent / "later.csv"
    path.write_text((site.lake.root.parent / "files" / JOBS).read_text().replace("2020-08-", "2021-08-"))
    return path
