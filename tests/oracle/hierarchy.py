"""The hierarchy of templates in plain Python: means of runtimes by what jobs have in common, in the published order."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import pandas as pd


@dataclass(eq=False)
class HierarchyByHand:
    """The oracle: dictionaries of means by what jobs have in common, told and asked as any predictor outside the kernel."""

    alpha: float = 0.2
    templates: int = 16
    name: str = "hierarchy-by-hand"
    means: dict[tuple, float] = field(default_factory=dict)

    def label(self) -> str:
        return f"hierarchy(alpha={self.alpha},templates={self.templates})"

    def begin(self, jobs: pd.DataFrame) -> None:
        keys = (
            jobs[name].astype(object).where(jobs[name].notna(), None) for name in ("executable", "user", "requested_s", "procs")
        )
        self.keys = list(zip(*keys, strict=True))
        self.runtime, self.requested = jobs["runtime_s"].tolist(), jobs["requested_s"].tolist()
        self.means = {}

    def groups(self, job: int) -> list[tuple]:
        """The job's groups under name/user/time/nodes, name/user/time, name/user//nodes, name/user, name//time/nodes and so on."""
        keys, group_keys = self.keys[job], []
        for template in list(product([True, False], repeat=4))[: self.templates]:
            if not any(wanted and key is None for wanted, key in zip(template, keys, strict=True)):
                group_keys.append((template, *(key for wanted, key in zip(template, keys, strict=True) if wanted)))
        return group_keys

    def submitted(self, job: int, now: int) -> None: ...
    def started(self, job: int, now: int) -> None: ...
    def ended(self, job: int, now: int) -> None:
        for group in self.groups(job):
            mean = self.means.setdefault(group, 0.0)
            weight = self.alpha if mean else 1.0
            self.means[group] = mean + weight * (self.runtime[job] - mean)

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        means = (self.means[group] for group in self.groups(job) if group in self.means)
        return next((mean for mean in means if round(mean) > elapsed), self.requested[job])
