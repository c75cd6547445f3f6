"""The exported agent schedules without torch as it does step by step in its environment."""

from __future__ import annotations

from itertools import pairwise

import gymnasium
import numpy as np
import pytest

import queuecast as qc
import sim.environments
from benchmarks.studies.rl_backfilling import DATA, LAYERS, SLOTS, Played, greedy, inputs, scores
from sim.policy import Policy
from sim.simulate import simulate_policy

assert sim.environments


@pytest.mark.parametrize("name", ["kth-sp2", "kth-sp2-untrained"])
def test_the_exported_agent_makes_the_schedule_of_its_steps(name: str) -> None:
    kth, file = qc.read("kth-sp2"), DATA / f"rl-backfilling-{name}.npz"
    env = gymnasium.make("queuecast/Backfill-v0", trace=kth, slots=SLOTS, warm_up=0, length=400).unwrapped
    weights, over, none = dict(np.load(file)), False, 0
    seen, _ = env.reset(options={"first": 3_000})
    while not over:
        each = scores(weights, inputs(seen["jobs"][None], seen["machine"][None]))[0]
        action = int(np.where(seen["mask"], each, -np.inf).argmax())
        none += action == SLOTS
        seen, _, over, _, _ = env.step(action)
    jobs = kth.jobs.iloc[3_000:3_400].reset_index(drop=True)
    made = simulate_policy(jobs, Policy("List"), procs=100, clock=kth.clock, decider=Played(greedy(file)))
    assert (env._decisions.work.state.start + int(jobs["submit_s"].iloc[0]) == made.jobs["start_s"]).all()
    easy = simulate_policy(jobs, Policy("EASY"), procs=100)
    assert (made.jobs["start_s"] != easy.jobs["start_s"]).any()


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
