"""The exported agent schedules without torch as it does step by step in its environment."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import gymnasium
import mlflow
import numpy as np
import pytest

import queuecast as qc
import sim.environments
from benchmarks.studies.rl_backfilling import DATA, agent, register
from benchmarks.studies.rl_backfilling_agent import LAYERS, SLOTS, inputs, scores

assert sim.environments


@pytest.mark.parametrize("name", ["kth-sp2", "kth-sp2-untrained"])
def test_the_exported_agent_makes_the_schedule_of_its_steps(name: str) -> None:
    kth, trained = qc.read("kth-sp2"), agent(DATA / f"rl-backfilling-{name}.npz")
    env = gymnasium.make("queuecast/Backfill-v0", trace=kth, slots=SLOTS, warm_up=0, length=400).unwrapped
    over, (seen, _) = False, env.reset(options={"first": 3_000})
    while not over:
        seen, _, over, _, _ = env.step(trained.act(seen))
    jobs = replace(kth, jobs=kth.jobs.iloc[3_000:3_400].reset_index(drop=True))
    schedule = qc.decide(jobs, trained)
    assert (env._decisions.work.state.start + int(jobs.jobs["submit_s"].iloc[0]) == schedule.jobs["start_s"]).all()
    assert (schedule.jobs["start_s"] != qc.simulate(jobs).jobs["start_s"]).any()


def test_a_registered_agent_answers_where_only_mlflow_and_numpy_are(tmp_path: Path) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    try:
        mlflow.create_experiment("agents", str(tmp_path / "artifacts"))
        mlflow.set_experiment("agents")
        model = mlflow.pyfunc.load_model(f"models:/backfiller-kth-sp2/{register('kth-sp2')}")
        random = np.random.default_rng(3)
        mask = np.ones((9, SLOTS + 1), np.int8)
        mask[:, 5:SLOTS] = 0
        seen = {"jobs": random.random((9, SLOTS, 7), np.float32), "machine": random.random((9, 7), np.float32), "mask": mask}
        trained = agent(DATA / "rl-backfilling-kth-sp2.npz")
        assert model.predict(seen).tolist() == [trained.act({name: each[at] for name, each in seen.items()}) for at in range(9)]
    finally:
        mlflow.set_tracking_uri(None)


def test_the_network_scores_each_candidate_alone() -> None:
    rng = np.random.default_rng(0)
    weights = {}
    for i, (before, after) in enumerate(pairwise(LAYERS)):
        weights |= {f"weights{i}": rng.normal(size=(after, before)), f"biases{i}": rng.normal(size=after)}
    seen = inputs(rng.random((1, SLOTS, 7)), rng.random((1, 7)))
    hidden = seen[0, 3].astype(float)
    for i in range(len(LAYERS) - 1):
        hidden = np.array([row @ hidden + bias for row, bias in zip(weights[f"weights{i}"], weights[f"biases{i}"], strict=True)])
        hidden = hidden if i == len(LAYERS) - 2 else hidden.clip(0)
    assert scores(weights, seen)[0, 3] == pytest.approx(hidden[0])
    assert seen[0, SLOTS, -1] == 1
    assert (seen[0, SLOTS, :7] == 0).all()
