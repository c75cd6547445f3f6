"""Train RLBackfilling on the training weeks of a trace, by PPO; write its weights without torch.

``python -m benchmarks.studies.rl_backfilling_training kth-sp2`` needs torch, which is no dependency of the project, and the extra ``agents``. The
algorithm is PPO in the form of CleanRL; the policy is the kernel network of Zhang et al. (SC 2020): one small network scores each
candidate, and "none", alone. Every ``JUDGED`` updates the greedy policy plays ``WINDOWS`` fixed windows of the validation weeks; the
weights that are best there are kept. Testing weeks are not read: the environments cut them off. The reward at each growth of slowdown, the rate of
learning and the size of a batch were chosen by three runs on KTH-SP2's validation weeks: with the reward at starts, the agent learns to start none.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import torch
from torch import nn

import sim.environments
from benchmarks.common.pages import SHARED
from benchmarks.studies.rl_backfilling import DATA, trace_of
from benchmarks.studies.rl_backfilling_agent import LAYERS, SLOTS, inputs

UPDATES, ENVS, STEPS = 70, 16, 512
EPOCHS, MINIBATCHES, CLIP, DISCOUNT, LAMBDA = 4, 8, 0.2, 1.0, 0.97
RATE, ENTROPY, VALUE, LARGEST = 3e-4, 0.01, 0.5, 0.5
JUDGED, WINDOWS = 5, 64
SEED = 1
assert sim.environments  # registers them


def layers(sizes: tuple[int, ...]) -> nn.Sequential:
    """Return linear layers of ``sizes`` with ReLU between them."""
    parts: list[nn.Module] = []
    for each, after in pairwise(sizes):
        parts += [nn.Linear(each, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Agent(nn.Module):
    """The policy's network, and one of the value of a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.value = layers(LAYERS), layers((SLOTS * LAYERS[0], 64, 32, 1))

    def forward(self, seen: torch.Tensor, mask: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        """Return the distribution of actions and the value; ``seen`` [moments, actions, features]."""
        scores = self.kernel(seen)[..., 0].masked_fill(~mask, -1e9)
        return torch.distributions.Categorical(logits=scores), self.value(seen[:, :SLOTS].flatten(1))[:, 0]


def weights(agent: Agent) -> dict[str, np.ndarray]:
    """Return the policy's weights and biases, layer by layer."""
    linear = [each for each in agent.kernel if isinstance(each, nn.Linear)]
    pairs = [(f"weights{i}", f"biases{i}", each) for i, each in enumerate(linear)]
    return {
        name: value for w, b, each in pairs for name, value in ((w, each.weight.detach().numpy()), (b, each.bias.detach().numpy()))
    }


def as_tensors(observed: dict[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and mask."""
    return torch.from_numpy(inputs(observed["jobs"], observed["machine"])), torch.from_numpy(observed["mask"].astype(bool))


def judged(agent: Agent, env: Any) -> float:
    """Return the mean logarithm of the greedy policy's slowdown relative to EASY's, over fixed windows of validation weeks."""
    firsts = np.linspace(0, env.unwrapped.windows - 1, WINDOWS).astype(int).tolist()
    ratios = []
    for first in firsts:
        observed, _ = env.reset(options={"first": first})
        over = False
        while not over:
            with torch.no_grad():
                distribution, _ = agent(*as_tensors({name: array[None] for name, array in observed.items()}))
            observed, _, over, _, info = env.step(int(distribution.logits.argmax()))
        ratios.append(info["relative"])
    return float(np.log(ratios).mean())


def improve(agent: Agent, optimiser: torch.optim.Optimizer, batch: dict[str, torch.Tensor]) -> None:
    """Take the steps of PPO on a batch of moments."""
    used = torch.nonzero(batch.pop("used"))[:, 0]
    for _ in range(EPOCHS):
        for part in used[torch.randperm(len(used))].chunk(MINIBATCHES):
            seen, mask, actions, before, advantages, returns = (batch[name][part] for name in batch)
            distribution, values = agent(seen, mask)
            ratio = (distribution.log_prob(actions) - before).exp()
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            gain = torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages).mean()
            loss = VALUE * 0.5 * ((values - returns) ** 2).mean() - gain - ENTROPY * distribution.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), LARGEST)
            optimiser.step()


def played(agent: Agent, envs: Any, observed: dict, over: np.ndarray, ended: list[float]) -> tuple[dict, dict, np.ndarray]:
    """Play ``STEPS`` steps; return the batch, and where the environments are."""
    kept: dict[str, list[torch.Tensor]] = {
        name: [] for name in ("seen", "mask", "actions", "before", "values", "rewards", "over", "used")
    }
    with torch.no_grad():
        for _ in range(STEPS):
            seen, mask = as_tensors(observed)
            distribution, values = agent(seen, mask)
            actions = distribution.sample()
            used = ~over  # the step after an end begins anew, whatever the action
            observed, rewards, over, _, info = envs.step(actions.numpy())
            ended += info["relative"][info["_relative"]].tolist() if "relative" in info else []
            now = (seen, mask, actions, distribution.log_prob(actions), values, *map(torch.as_tensor, (rewards, over, used)))
            for name, value in zip(kept, now, strict=True):
                kept[name].append(value)
        _, last = agent(*as_tensors(observed))
    batch = {name: torch.stack(values) for name, values in kept.items()}
    values, rewards, ends = batch["values"], batch["rewards"].float(), batch["over"].float()
    advantages, after, ahead = torch.zeros_like(values), torch.zeros(ENVS), last
    for t in reversed(range(STEPS)):
        goes_on = 1.0 - ends[t]
        after = rewards[t] + DISCOUNT * ahead * goes_on - values[t] + DISCOUNT * LAMBDA * goes_on * after
        after = after * batch["used"][t]
        advantages[t], ahead = after, values[t]
    batch |= {"advantages": advantages, "returns": advantages + values}
    names = ("seen", "mask", "actions", "before", "advantages", "returns", "used")
    return {name: batch[name].flatten(0, 1) for name in names}, observed, over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trace")
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    trace = trace_of(options.trace, options.shared)
    envs = gymnasium.make_vec("queuecast/Backfill-v0", num_envs=ENVS, trace=trace, slots=SLOTS)
    validation = gymnasium.make("queuecast/Backfill-v0", trace=trace, slots=SLOTS, split="validation")
    agent = Agent()
    np.savez(DATA / f"rl-backfilling-{options.trace}-untrained.npz", **weights(agent))
    optimiser = torch.optim.Adam(agent.parameters(), lr=RATE, eps=1e-5)
    observed, _ = envs.reset(seed=SEED)
    over, rows, best, began = np.zeros(ENVS, bool), [], np.inf, time.perf_counter()
    for update in range(UPDATES + 1):
        if update % JUDGED == 0:
            value = judged(agent, validation)
            if value < best and update > 0:
                best = value
                np.savez(DATA / f"rl-backfilling-{options.trace}.npz", **weights(agent))
            rows.append({"trace": options.trace, "update": update, "validation": value})
        ended: list[float] = []
        optimiser.param_groups[0]["lr"] = RATE * (1 - update / (UPDATES + 1))
        batch, observed, over = played(agent, envs, observed, over, ended)
        improve(agent, optimiser, batch)
        rows[-1] |= (
            {"training": float(np.mean(ended)), "seconds": round(time.perf_counter() - began)} if update % JUDGED == 0 else {}
        )
        print(update, f"{np.mean(ended):.4f} {rows[-1]}", flush=True)
    pd.DataFrame(rows).to_csv(DATA / f"rl-backfilling-{options.trace}-training.csv", index=False)


if __name__ == "__main__":
    main()
