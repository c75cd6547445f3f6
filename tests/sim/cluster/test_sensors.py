"""What the simulated cluster lets a model see: counters, probes and types, against features made of the recorded samples by other code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers.nichols.experiments import learn
from features.monitoring.labels import DELAYS
from features.monitoring.samplers import (
    DELAY_FEATURES,
    FEATURES,
    NEWEST_FEATURES,
    PROBE_FEATURES,
    SAMPLERS,
    SITUATION_FEATURES,
    TYPE_FEATURES,
    TYPES,
    counter_features,
)
from features.monitoring.windows import side_by_side, window_features
from models.variability.classifiers import ORDINAL_CUTOFF
from models.variability.model import fit
from sim.cluster.applications import Behaviour, application
from sim.cluster.presets import Level, SimulatedCluster
from sim.cluster.simulate import Adviser, ClusterRun, Observed, StartAdvice, simulate_on
from sim.policy import Policy
from tests.oracle.cluster import Run
from tests.sim.cluster.test_simulate import SMALL, by_oracle, jobs_of

INTERVALS = {
    "30 s, seen 30 s later": {},
    "10 s, seen at once": {"interval_s": 10, "lag_s": 0},
    "60 s, seen 90 s later": {"interval_s": 60, "lag_s": 90},
    "70 s, which do not divide the window, seen 45 s later": {"interval_s": 70, "lag_s": 45, "warm_s": 350},
    "20 s, seen 290 s later": {"interval_s": 20, "lag_s": 290},
}


def names(cluster: SimulatedCluster) -> list[str]:
    return [f"n{node:03d}" for node in range(cluster.nodes)]


@cache
def recorded(interval: str) -> tuple[SimulatedCluster, pd.DataFrame, ClusterRun, np.ndarray, list[Run]]:
    """Cluster, jobs, run, increments [samples, counters, nodes] from the first sample on, and the oracle's runs, which know their nodes."""
    cluster = SMALL.but(probe_noise=0.0, **INTERVALS[interval])
    jobs, taken = jobs_of(21), []

    def record(first: int, grown: np.ndarray) -> None:
        assert first == 1 - cluster.warm_s // cluster.interval_s + sum(map(len, taken))
        taken.append(grown.copy())

    simulated = simulate_on(cluster, jobs, Policy(seed=21), observed=Observed(np.ones(len(jobs), bool), record=record))
    return cluster, jobs, simulated, np.concatenate(taken), by_oracle(cluster, jobs, 21)


@pytest.mark.slow
@pytest.mark.parametrize("interval", INTERVALS)
def test_features_at_the_start_are_those_of_the_recorded_samples(interval: str) -> None:
    cluster, jobs, simulated, grown, runs = recorded(interval)
    first = 1 - cluster.warm_s // cluster.interval_s
    time = jobs["submit_s"].min() + cluster.interval_s * np.arange(first - 1, first + len(grown))
    started = pd.DataFrame(
        {
            "run_id": [f"r{run.job.index}" for run in runs],
            "nodes": [[names(cluster)[node] for node in run.nodes] for run in runs],
            "start_s": simulated.runs["start_s"],
        }
    )
    parts, at = [], 0
    for sampler in SAMPLERS.values():
        columns = {}
        for metric in sampler.metrics:
            if metric in sampler.gauges:
                values = np.vstack([np.full((1, cluster.nodes), np.nan), grown[:, at]])
            else:  # a counter that began at 0 a sample before
                values = np.vstack([np.zeros((1, cluster.nodes)), np.cumsum(grown[:, at], axis=0)])
            columns[metric] = values.ravel()
            at += 1
        keys = {"time_s": np.repeat(time, cluster.nodes).astype(float), "node": np.tile(names(cluster), len(time))}
        parts.append(window_features([pd.DataFrame(keys | columns)], started, sampler, lag_s=cluster.lag_s))
    made_of = side_by_side(parts)
    for table, expected in ((simulated.own, made_of.own), (simulated.all, made_of.all)):
        assert tuple(table.columns) == FEATURES
        counters = list(counter_features())
        np.testing.assert_allclose(table[counters], expected[counters], rtol=1e-12, equal_nan=True)
        assert table["sysclassib.port_xmit_wait.mean"].nunique() > 10  # there is something to agree on


@pytest.mark.parametrize("interval", list(INTERVALS)[:2])
def test_probes_are_the_formula_of_what_each_node_is_exposed_to(interval: str) -> None:
    _, _, simulated, _, runs = recorded(interval)
    for row, run in enumerate(runs):
        worst = max(run.exposed)
        waited = {
            "send_s": [0.16 * (1.0 + mine) for mine in run.exposed],
            "recv_s": [0.16 * (1.0 + (mine + worst) / 2.0) for mine in run.exposed],
            "allreduce_s": [0.24 * (1.0 + worst) for mine in run.exposed],
        }
        expected = [summary(seconds) for seconds in waited.values() for summary in (min, max, np.mean)]
        for table in (simulated.own, simulated.all):
            np.testing.assert_allclose(table.loc[row, list(PROBE_FEATURES)].to_numpy(float), expected, rtol=1e-12)


def test_noise_of_probes_is_relative_and_every_nodes_own() -> None:
    jobs = jobs_of(22).assign(procs=32)
    quiet = SMALL.but(network_gain=0.0, probe_noise=0.05)  # no waits but for the probes themselves
    probes = simulate_on(quiet, jobs, Policy(seed=22), observed=Observed(np.ones(len(jobs), bool))).own
    assert probes["probe.send_s.mean"].mean() == pytest.approx(0.16, rel=0.01)
    assert probes["probe.send_s.mean"].std() == pytest.approx(0.16 * 0.05 / np.sqrt(32), rel=0.3)
    assert (probes["probe.send_s.min"] < 0.155).all()
    assert (probes["probe.send_s.max"] > 0.165).all()


def test_types_are_those_of_the_applications() -> None:
    _, _, simulated, _, _ = recorded("10 s, seen at once")
    expected = [[float(application(name).type == kind) for kind in TYPES] for name in simulated.runs["application"]]
    for table in (simulated.own, simulated.all):
        assert table[list(TYPE_FEATURES)].to_numpy().tolist() == expected


def test_what_a_counter_counts_without_noise_is_what_was_sent() -> None:
    # A job alone on 16 nodes of one leaf sends its traffic at the pace of its work; the counter of words counts a word of 4 bytes, and 3e4 a second more.
    cluster = SMALL.but(sensor_noise=0.0, noise_share=0.0, noise_leaves=0, own_noise=0.0, lag_s=0)
    jobs, grown = jobs_of(0, 1).assign(executable="AMG", procs=16), []
    run = simulate_on(cluster, jobs, observed=Observed(record=lambda first, some: grown.append(some.copy()))).runs.iloc[0]
    sent = np.concatenate(grown)[10:, 0]  # port_xmit_data: sent, and written
    amg = application("AMG").on(16)
    seconds = cluster.interval_s * len(sent)
    assert seconds - run["runtime_s"] < 2 * cluster.interval_s
    assert sent[:, 16:].sum(axis=0) == pytest.approx(3e4 * seconds, abs=len(sent))
    while_it_ran = (amg.traffic + amg.write) * run["work_s"] * 2.5e8 + 3e4 * seconds
    assert sent[:, :16].sum(axis=0) == pytest.approx(while_it_ran, rel=1e-2)  # what was sent after the last sample is not in it


def test_counters_show_the_noise_job_before_the_first_submission_as_after_it() -> None:
    cluster = SMALL.but(noise_background=Level(1.0), core_background=Level(0.0), sensor_noise=0.0)
    grown: list[np.ndarray] = []
    congested = counter_features().index("opa_info.sw_port_congestion.min") // 3
    simulate_on(
        cluster,
        jobs_of(0, 1).assign(procs=8),
        Policy(seed=0),
        observed=Observed(record=lambda first, some: grown.append(some.copy())),
    )
    seen = np.concatenate(grown)[:, congested].reshape(-1, cluster.leaves, cluster.nodes_per_leaf).mean(axis=2)
    sent = cluster.noise_traffic * 2 / 2  # through the uplinks: two nodes here, as many elsewhere
    expected = 0.5 + 4e5 * 2.0 * ((sent / cluster.uplink) ** 3 + (2 * sent / cluster.core) ** 3)
    assert seen[:, 0] / cluster.interval_s == pytest.approx(expected, rel=1e-3)


def test_no_feature_sees_what_is_submitted_later() -> None:
    jobs, keep = jobs_of(23, 60, over_s=4000), 30
    features = np.ones(len(jobs), bool)
    simulated = simulate_on(SMALL, jobs, Policy(seed=23), observed=Observed(features))
    later = np.random.default_rng(0).permutation(np.arange(keep, len(jobs)))
    changed = jobs.copy()
    for column in ("executable", "procs"):  # others come, though as many and as long: the same is drawn
        changed[column] = jobs[column].to_numpy()[np.concatenate([np.arange(keep), later])]
    other = simulate_on(SMALL, changed, Policy(seed=23), observed=Observed(features))
    before = (simulated.runs["start_s"] < jobs["submit_s"].iloc[keep]).to_numpy()
    assert before.sum() > 15
    for one, two in ((simulated.own, other.own), (simulated.all, other.all)):
        pd.testing.assert_frame_equal(one[before], two[before], check_exact=True)
        assert not one[~before].equals(two[~before])


@pytest.fixture(scope="module")
def learned() -> ClusterRun:
    """A run whose starts models learn from."""
    return simulate_on(SMALL, jobs_of(31, 200, over_s=8000), Policy(seed=31), observed=Observed(np.ones(200, bool)))


@pytest.mark.parametrize("scope", ["own", "all"])
def test_the_model_is_asked_with_the_features_of_the_job_that_starts(learned: ClusterRun, scope: str) -> None:
    label = (learned.runs["contention"] > learned.runs["contention"].quantile(0.7)).astype(np.int64).to_numpy()
    columns = [*counter_features(("opa_info", "lustre2_client")), *TYPE_FEATURES]  # probes are run anew for every look
    model = fit("decision-forest", getattr(learned, scope), label, seed=1, columns=columns)
    jobs = jobs_of(32, 80)
    advisers = {"forest": Adviser(model, scope)}
    asked = simulate_on(
        SMALL,
        jobs,
        Policy("EASY+RUSH(model=forest,skips=3)", seed=32),
        advice=StartAdvice(advisers),
        observed=Observed(np.ones(len(jobs), bool)),
    )
    last_word = (asked.runs["skips"] < 3).to_numpy()  # the others started unasked
    assert last_word.sum() > 5
    assert asked.skipped > 20
    expected = model.predict_proba(getattr(asked, scope))[:, -1]
    np.testing.assert_allclose(asked.runs["predicted"][last_word], expected[last_word], rtol=1e-9)
    assert (asked.runs["predicted"][last_word] < model.cutoff).all()
    assert (asked.runs["predicted"][~last_word] >= model.cutoff).all()


def test_a_model_of_delays_skips_from_its_class_of_variation_on_by_the_cutoff_of_the_scheduler(learned: ClusterRun) -> None:
    adviser = learn(learned, classifier="ordinal", options={"trees": 20, "min_rows_in_leaf": 5})
    model = adviser.model
    assert (model.classes, model.variation, model.cutoff) == (len(DELAYS) + 1, 3, ORDINAL_CUTOFF)
    assert set(model.columns) == set(DELAY_FEATURES)
    for cutoff, skips in ((0.02, True), (0.9, False)):
        jobs, name = jobs_of(32, 80), f"EASY+RUSH(model=ordinal,skips=3,cutoff={cutoff})"
        asked = simulate_on(
            SMALL.but(probe_noise=0.0),
            jobs,
            Policy(name, seed=32),
            advice=StartAdvice({"ordinal": adviser}),
            observed=Observed(np.ones(80, bool)),
        )
        answered = (asked.runs["skips"] < 3).to_numpy()
        assert (asked.skipped > 0) == skips
        seen = pd.concat([asked.all, asked.situation], axis=1)
        chances = model.variation_of(model.predict_proba(seen))
        np.testing.assert_allclose(asked.runs["predicted"][answered], chances[answered], rtol=1e-9)
        assert (chances[answered] < cutoff).all()


@pytest.mark.parametrize(("name", "nodes"), [("LBANN", 16), ("SWFFT", 32), ("sw4lite", 8)])
def test_the_oracle_foresees_to_the_digit_how_long_a_job_alone_will_take(name: str, nodes: int) -> None:
    jobs = jobs_of(0, 1).assign(executable=name, procs=nodes)
    runtime = simulate_on(SMALL, jobs, Policy(seed=3)).runs["runtime_s"].iloc[0]
    for factor, skips in ((1.0 + 1e-9, 0), (1.0 - 1e-9, 1)):
        limits = {(name, nodes): runtime * factor}
        simulated = simulate_on(SMALL, jobs, Policy("EASY+RUSH(model=oracle,skips=1)", seed=3), advice=StartAdvice(limits=limits))
        assert (simulated.decisions, simulated.skipped) == (1, skips)


def test_the_newest_sample_is_the_mean_over_all_nodes_of_the_last_that_can_be_read() -> None:
    cluster, jobs, simulated, grown, _ = recorded("60 s, seen 90 s later")
    first = 1 - cluster.warm_s // cluster.interval_s
    rates = grown.mean(axis=2) / cluster.interval_s
    since = simulated.runs["start_s"].to_numpy() - jobs["submit_s"].min()
    last = (since - 1 - cluster.lag_s) // cluster.interval_s - first
    gauge = list(NEWEST_FEATURES).index("opa_info.link_quality_indicator.newest")
    rates[:, gauge] *= cluster.interval_s
    np.testing.assert_allclose(simulated.situation[list(NEWEST_FEATURES)], rates[last], rtol=1e-12)


def test_the_situation_is_what_a_scheduler_knows_of_the_nodes_and_of_the_jobs_beside() -> None:
    cluster, _, simulated, _, runs = recorded("30 s, seen 30 s later")
    seen = 0
    for run in runs:
        if (beside := beside_at_start(simulated, run, runs)) is not None:
            seen += 1
            got = simulated.situation.loc[run.job.index, list(SITUATION_FEATURES)]
            np.testing.assert_allclose(got, situation(cluster, simulated, run, beside), rtol=1e-12, err_msg=str(run.job.index))
    assert seen > 20
    assert (simulated.situation["job.leaves"] > 1).any()


def beside_at_start(simulated: ClusterRun, run: Run, runs: Sequence[Run]) -> list[Run] | None:
    """Jobs that run as one starts; None if others start in the same second: which of them came first is not in the table."""
    begun = simulated.runs["start_s"]
    ends = np.ceil(begun + simulated.runs["runtime_s"])
    start = begun.iloc[run.job.index]
    if (begun == start).sum() > 1:
        return None
    return [each for each in runs if begun.iloc[each.job.index] < start < ends.iloc[each.job.index]]


def situation(cluster: SimulatedCluster, simulated: ClusterRun, run: Run, beside: Sequence[Run]) -> list[float]:
    """SITUATION_FEATURES of a job beside others."""
    size, everyone = cluster.nodes_per_leaf, (run, *beside)
    mine = Counter(node // size for node in run.nodes)
    usual = {each.job.index: behaviour(simulated, each) for each in everyone}

    def crossing(each: Run, leaf: int) -> float:
        there = sum(node // size == leaf for node in each.nodes)
        return usual[each.job.index].traffic * there * (1 - there / len(each.nodes))

    io = sum(len(each.nodes) * (usual[each.job.index].read + usual[each.job.index].write) for each in everyone)
    network = max(sum(crossing(each, leaf) for each in everyone) for leaf in mine) if len(mine) > 1 else 0.0
    by_type = [[node for each in beside if kind_of(simulated, each) == kind for node in each.nodes] for kind in TYPES]
    return [
        len(run.nodes),
        len(mine),
        1 - min(mine.values()) / len(run.nodes),
        *(len(nodes) / cluster.nodes for nodes in by_type),
        *(sum(node // size in mine for node in nodes) / (len(mine) * size) for nodes in by_type),
        io,
        network,
    ]


def behaviour(simulated: ClusterRun, run: Run) -> Behaviour:
    return application(simulated.runs["application"].iloc[run.job.index]).on(len(run.nodes))


def kind_of(simulated: ClusterRun, run: Run) -> str:
    return application(simulated.runs["application"].iloc[run.job.index]).type
