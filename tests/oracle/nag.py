"""The learners ``cv-triple`` and ``nag`` in plain Python: the oracle of the compiled ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, exp, log, pi, sin, sqrt

import pandas as pd

from tests.support.walls import Wall, own

DAY_S, WEEK_S = 86_400, 7 * 86_400

SLOPES: dict[str, Callable[[float, float], float]] = {  # by factor and error >= 0
    "absolute": lambda factor, error: factor,
    "square": lambda factor, error: factor * 2 * error,
    "exponential": lambda factor, error: factor * exp(factor * error),
}
WEIGHTS: dict[str, Callable[[float, float], float]] = {  # by runtime and processors
    "constant": lambda p, n: 1,
    "long-narrow": lambda p, n: 5 + log(p / n),
    "short-wide": lambda p, n: 5 + log(n / p),
    "small-area": lambda p, n: 11 + log(1 / (n * p)),
    "large-area": lambda p, n: 1 + log(n * p),
}


@dataclass
class History:
    """What is known of one user."""

    ended: list[int] = field(default_factory=list)  # jobs in order of their ends
    running: list[int] = field(default_factory=list)
    last_end: int = 0


@dataclass(eq=False)
class NagByHand:
    """One learner; the defaults are ``cv-triple``'s."""

    published: bool = True
    over: tuple[float, str] = (1, "square")
    under: tuple[float, str] = (1, "absolute")
    threshold: float = 0
    weight: str = "large-area"
    eta: float = 5000
    lambda_: float = 4e9
    name: str = "nag-by-hand"
    point: bool = True
    clock: Wall = own

    def label(self) -> str:
        """The name under which the catalogue has the same learner."""
        over, under = (f"{factor!r}*{kind}" for factor, kind in (self.over, self.under))
        options = (
            f"over={over},under={under},threshold={self.threshold!r},weight={self.weight},eta={self.eta!r},lambda={self.lambda_!r}"
        )
        return f"{'cv-triple' if self.published else 'nag'}({options})"

    def begin(self, jobs: pd.DataFrame) -> None:
        columns = ("submit_s", "runtime_s", "procs", "requested_s")
        self.submit, self.runtime, self.procs, self.requested = (jobs[name].tolist() for name in columns)
        self.user = [None if pd.isna(user) else user for user in jobs["user"]]
        self.users: dict[str, History] = {}
        self.start: dict[int, int] = {}
        self.x: dict[int, list[float]] = {}
        self.w, self.s, self.G, self.N, self.t = [0.0] * 157, [1e-9] * 157, [1e-9] * 157, 1e-9, 1

    def history(self, job: int) -> History:
        """Of the job's user; empty for an unknown user."""
        user = self.user[job]
        return History() if user is None else self.users.setdefault(user, History())

    def submitted(self, job: int, now: int) -> None:
        self.submit[job] = now  # which it is not where it follows another job
        self.x[job] = self.features(job, now)

    def started(self, job: int, now: int) -> None:
        self.start[job] = now
        self.history(job).running.append(job)

    def ended(self, job: int, now: int) -> None:
        history = self.history(job)
        if self.user[job] is not None:
            history.running.remove(job)
        history.ended.append(job)
        history.last_end = now
        self.learn(self.x[job], self.runtime[job], self.procs[job])

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        if self.published:
            return int(abs(self.dot(self.w, self.x[job])))
        if self.t == 1:
            return self.requested[job]
        scaled = [w * (s / max(s, abs(x))) for w, s, x in zip(self.w, self.s, self.x[job], strict=True)]
        return round(self.dot(scaled, self.x[job]))

    @staticmethod
    def dot(w: list[float], x: list[float]) -> float:
        total = 0.0
        for a, b in zip(w, x, strict=True):
            total += a * b
        return total

    def features(self, job: int, now: int) -> list[float]:
        history = self.history(job)
        R, n = self.requested[job], self.procs[job]
        last = history.ended[:-4:-1]
        seen = [now - self.submit[c] if self.published else self.runtime[c] for c in last]
        x = [1.0, *[float(min(R, seconds)) for seconds in seen], *[float(R)] * (3 - len(last)), float(R)]
        x.append(0.5 * (x[1] + x[2]) if len(last) >= 2 else x[1])
        third = (x[1] + x[2] + x[3]) * 0.33 if self.published else (x[1] + x[2] + x[3]) / 3
        x.append(third if len(last) == 3 else x[5])
        count = len(history.ended)
        if count:
            mean = sum(self.runtime[c] for c in history.ended) / count
            x.append(mean if self.published else min(R, mean))
            x.append(float(now - history.last_end))
            x.append(n / (sum(self.procs[c] for c in history.ended) / count))
        else:
            x += [0.0, 0.0, 0.0] if self.published else [float(R), 0.0, 1.0]
        running = [c for c in history.running if self.start[c] < now]
        elapsed = [now - self.start[c] for c in running]
        x += [sum(self.procs[c] for c in running), sum(elapsed), len(running), max(elapsed, default=0)]
        second = now if self.published else self.clock(now)
        for period in (DAY_S, WEEK_S):
            angle = 2 * pi * (second % period) / period
            x += [cos(angle), sin(angle)]
        x.append(n)
        products = [x[i] * x[j] for i in range(1, 17) for j in range(i + 1, 17)]
        return [*x, *products, *[value * value for value in x[1:]]]

    def slope(self, error: float) -> float:
        error -= self.threshold
        if error == 0:
            return 0
        factor, kind = self.over if error > 0 else self.under
        return SLOPES[kind](factor, error) if error > 0 else -SLOPES[kind](factor, -error)

    def learn(self, x: list[float], p: int, n: int) -> None:
        norm = 0.0
        for i in range(157):
            if abs(x[i]) > self.s[i]:
                self.w[i] *= self.s[i] / abs(x[i])
                self.s[i] = abs(x[i])
            norm += (x[i] / self.s[i]) * (x[i] / self.s[i]) if self.published else x[i] * x[i] / (self.s[i] * self.s[i])
        self.N += norm
        gamma = WEIGHTS[self.weight](p, n)
        if not self.published:
            gamma = max(gamma, 0)
        slope = self.slope(self.dot(self.w, x) - p)
        for i in range(157):
            loss = slope * x[i] * gamma if self.published else gamma * slope * x[i]
            g = loss + self.lambda_ * self.w[i]
            self.G[i] += g * g
            self.w[i] -= self.eta * g / (self.s[i] * sqrt(self.N * self.G[i] / self.t))
        self.t += 2 if self.published else 1
