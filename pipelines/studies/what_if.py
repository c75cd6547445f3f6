"""The effects of changes of a Slurm site.

There is a catalogue of candidates, a screening on earlier jobs, and one judgement on later jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from features.clock import DAY_S
from features.errors import InputError, unknown
from pipelines.readers.slurm.jobs import SlurmJobs
from pipelines.readers.text import read_settings
from pipelines.studies.parity import REPLAYS
from sim.campaigns.maps import Map
from sim.site.changes import KINDS, TEXTS, Changed, SiteChange, TimeLimits, change, site_change
from sim.site.computed import with_computations
from sim.site.explained import decisions
from sim.site.limit_advice import LimitAdvice, limit_advice
from sim.site.parity import Open, too_far
from sim.site.what_if import HERE, JUDGED_BY, NOT_SURE, Effect, Replays, blocks, effect, judged, raised, same, shaken, usual_shake
from sim.slurm.site import Site

CATALOGUE = Path(__file__).with_name("candidates.toml")
OWN = CATALOGUE.name
"""Name of the file of a site's own candidates in its folder."""
MOST_PASSED = 6
"""Max number of candidates that pass the screening."""
LOSES = "loses jobs"
"""In place of a verdict on a candidate that loses more than :data:`MOST_LOST` of the jobs."""
NOT_JUDGED = ("screened out", "changes nothing here")
MOST_LOST = 0.1
"""Max share of lost jobs: a candidate that kills, or never starts, more is no answer, whatever its effect on the
others."""
_SCREENED = 1
"""Replicates of the screening. At a generated site, 1 and 3 chose the same first four of six; a small gain may be
missed."""
_FEWEST_JOBS, _FEWEST_DAYS = 500, 10
"""A log with fewer jobs, or shorter, is not cut in two."""
_WARM_UP_S = 10 * DAY_S
"""Seconds that replays of the later half begin before it, so that jobs run and wait at its beginning, and users have
usage."""
Progress = Callable[[str, int, int], None]
"""Called with the stage, the replays done and the total."""


@dataclass(frozen=True)
class WhatIf:
    """The results of replays for each candidate.

    ``effects`` and ``verdicts`` are of judged candidates, by name; ``screened`` has the change of the mean wait on the
    earlier jobs for the others. ``idle`` names those that change nothing here: no value, or no start in any replay.
    ``fit`` has the figures of parity for :func:`sim.site.parity.too_far`: replays of today's settings without moved
    submissions, beside the whole record. ``replayed_s`` is the mean wait of the judged jobs in the pairs' replays of
    today's settings. ``split``: they are the later half, submitted from ``from_s`` on. All that is shown of verdicts
    comes from :meth:`verdict`.
    """

    site: Site
    jobs: SlurmJobs
    candidates: dict[str, SiteChange]
    changes: dict[str, Changed]
    idle: tuple[str, ...]
    screened: dict[str, float]
    effects: dict[str, Effect]
    verdicts: dict[str, str]
    fit: dict[str, Any]
    replayed_s: float
    split: bool
    replicates: int
    shake_s: int
    from_s: int = 0

    @property
    def far(self) -> str:
        """Return why the model is too far from the record to advise, or ""."""
        return too_far(self.fit)

    @property
    def several(self) -> bool:
        """Tell whether the judged jobs lie in several weeks or days.

        Then intervals hold for other weeks or days, too.
        """
        submit = self.jobs.table["submit_s"].to_numpy(np.int64)
        return bool(blocks(submit[submit >= self.from_s]).any())

    def verdict(self, name: str) -> str:
        """Return the verdict that is shown of a judged candidate.

        Nothing is sure if the model is far from its record; a candidate that loses many jobs is no answer.
        """
        if self.far:
            return NOT_SURE
        return LOSES if self.lost(name) > MOST_LOST else self.verdicts[name]

    def raised(self, name: str) -> list[str]:
        """Return the metrics that a candidate raises, if its verdict is ``mixed`` or ``worse``."""
        verdict = self.verdict(name)
        kind = "p_here" if verdict.endswith(HERE) else "p"
        return raised(self.effects[name], kind) if verdict.startswith(("mixed", "worse")) else []

    @property
    def better(self) -> list[str]:
        """Return the candidates that are surely better."""
        return [name for name in self.ranked if self.verdict(name) == "better"]

    def lines(self, name: str) -> tuple[str, ...]:
        """Return the lines that make a change that is surely better, and none for any other."""
        return self.changes[name].lines if name in self.better else ()

    @property
    def lead(self) -> str | None:
        """Return the candidate that the answer names.

        It is a surely better one, else the nearest that loses few jobs.
        """
        near = [name for name in self.ranked if self.verdict(name) != LOSES]
        return next(iter([*self.better, *near]), None)

    def lost(self, name: str) -> float:
        """Return the share of the jobs that a candidate may kill, or never starts."""
        return (len(self.changes[name].kills) + self.effects[name].never) / len(self.jobs.table)

    @property
    def ranked(self) -> list[str]:
        """Return the judged candidates, better ones first, then by the change of the mean wait.

        Settings come first; then other nodes, which are no settings; then candidates that lose many jobs.
        """
        order = ("better", "mixed", "better here", "mixed here", NOT_SURE, "worse here", "worse", LOSES)

        def place(name: str) -> tuple[int, int, float]:
            kind = 2 if self.lost(name) > MOST_LOST else int(self.candidates[name].resources)
            return kind, order.index(self.verdict(name)), self.effects[name].metrics[JUDGED_BY[0]].relative

        return sorted(self.effects, key=place)


def all_candidates(machine: Path | None, path: Path | None = None) -> list[SiteChange]:
    """Read the candidates of the catalogue, of a site's folder, and of another file.

    Raises InputError for a wrong file, and for two candidates with the same name.
    """
    candidates = read_candidates()
    if machine is not None and (machine / OWN).is_file():
        candidates += read_candidates(machine / OWN)
    candidates += read_candidates(path) if path is not None else []
    names = [candidate.name for candidate in candidates]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{path or machine}: several candidates are named {twice[0]}")
    return candidates


def read_candidates(path: Path = CATALOGUE) -> list[SiteChange]:
    """Read candidates from a TOML file; raise InputError for a wrong one."""
    return _parsed(path, read_settings(path, "candidates"))


def _parsed(path: Path, document: dict[str, Any]) -> list[SiteChange]:
    keys, rows = (*TEXTS, *KINDS), document.get("candidate")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or set(document) != {"candidate"}:
        raise InputError(f"{path}: must hold [[candidate]] tables and nothing else")
    candidates: list[SiteChange] = []
    for at, row in enumerate(rows):
        if strange := set(row) - set(keys):
            raise InputError(f"{path}: candidate {row.get('name', at + 1)}: {unknown('key', min(strange), keys)}")
        if not isinstance(row.get("name"), str) or not row["name"] or row["name"] in {candidate.name for candidate in candidates}:
            raise InputError(f"{path}: candidate {at + 1} has no name, or the name of another candidate")
        if wrong := [key for key, value in row.items() if isinstance(value, dict) != (key in KINDS and KINDS[key].tabular)]:
            raise InputError(f"{path}: candidate {row['name']}: {wrong[0]} is not of the right form")
        settings: dict[str, Any] = {key: value if isinstance(value, dict) else str(value) for key, value in row.items()}
        candidates.append(site_change(**settings))
    return candidates


def measure(
    site: Site,
    jobs: SlurmJobs,
    candidates: Sequence[SiteChange],
    replicates: int,
    shake_s: int | None,
    seed: int,
    spread: Map,
    progress: Progress,
    fit_replays: int = REPLAYS,
) -> WhatIf:
    """Replay the site as it is and under each candidate, and judge them.

    A long log is cut in two: the earlier half chooses at most :data:`MOST_PASSED` candidates that lower the mean wait
    there. These are judged on the later half alone. In a shorter log, all are judged on all jobs. Replays of the
    judging jobs begin :data:`_WARM_UP_S` before them. ``fit_replays`` show how near the model is to the record.
    Submissions move by :func:`sim.site.what_if.usual_shake` if ``shake_s`` is None. Raises InputError if no candidate
    changes anything.
    """
    table = jobs.table.assign(withdrawn_s=-1)  # cancelling all that wait would end the longest waits
    shake_s = usual_shake(table) if shake_s is None else shake_s
    applied = {candidate.name: change(candidate, site, table, seed) for candidate in candidates}
    changes = {name: changed for name, changed in applied.items() if changed is not None}
    idle = [name for name, changed in applied.items() if changed is None]
    if not changes:
        raise InputError(f"{site.name}: no candidate changes anything here")
    today = Changed(site, table, (), frozenset())
    submit = table["submit_s"].to_numpy(np.int64)
    middle = int(np.quantile(submit, 0.5))
    long = len(table) >= 2 * _FEWEST_JOBS and submit.max() - submit.min() >= _FEWEST_DAYS * DAY_S
    split = long and len(changes) > MOST_PASSED
    screened = dict[str, float]()
    seeds = [seed + row for row in range(replicates)]
    passed = list(changes)
    fit = _fit(site, jobs, fit_replays, seed, spread, progress)
    if split:
        early = {name: _before(changed, middle) for name, changed in changes.items()}
        starts = _replays("screening", [_before(today, middle), *early.values()], seeds[:_SCREENED], shake_s, spread, progress)
        first = _before(today, middle)
        for row, (name, changed) in enumerate(early.items()):
            screened[name] = (
                effect(first, changed, starts[0], starts[row + 1], shake_s, seeds[:_SCREENED]).metrics[JUDGED_BY[0]].relative
            )
            if same(first, changed, starts[0], starts[row + 1]):
                idle.append(name)
        passed = sorted((name for name in screened if screened[name] < 0), key=screened.__getitem__)[:MOST_PASSED]
    from_s = middle if split else 0
    today, late = _after(today, from_s - _WARM_UP_S), {name: _after(changes[name], from_s - _WARM_UP_S) for name in passed}
    table, submit = today.jobs, today.jobs["submit_s"].to_numpy(np.int64)
    starts = _replays("pairs of replays", [today, *late.values()], seeds, shake_s, spread, progress)
    tried = {candidate.name: candidate for candidate in candidates}
    idle += [name for row, name in enumerate(passed) if same(today, late[name], starts[0], starts[row + 1])]
    effects = dict[str, Effect]()
    for row, name in enumerate(passed):
        progress("effects", row, len(passed))
        if name not in idle:
            effects[name] = effect(today, late[name], starts[0], starts[row + 1], shake_s, seeds, from_s)
    waits_s = starts[0] - np.stack([shaken(table, shake_s, seed)["submit_s"].to_numpy(np.float64) for seed in seeds])
    ran = (submit >= from_s) & np.isfinite(waits_s).all(axis=0) & (table["start_s"].to_numpy() >= 0)
    return WhatIf(
        site=site,
        jobs=jobs,
        candidates=tried,
        changes={name: changed for name, changed in changes.items() if name not in idle},
        idle=tuple(idle),
        screened={name: relative for name, relative in screened.items() if name not in (*passed, *idle)},
        effects=effects,
        verdicts=judged(effects),
        fit=fit,
        replayed_s=float(waits_s[:, ran].mean()) if ran.any() else float("nan"),
        split=split,
        replicates=replicates,
        shake_s=shake_s,
        from_s=from_s,
    )


def advise_limits(
    site: Site, jobs: SlurmJobs, replicates: int, shake_s: int | None, seed: int, spread: Map, progress: Progress
) -> tuple[list[LimitAdvice], str]:
    """Return limits for users' jobs, by the catalogue's predicted limits.

    The text says why none of them is sure: the model is too far from its record. Else it is "".
    """
    predicted = (candidate for candidate in read_candidates() if isinstance(candidate.changes[0], TimeLimits))
    candidate = next(candidate for candidate in predicted if candidate.changes[0].value.startswith("predicted"))
    table, changed = jobs.table, change(candidate, site, jobs.table, seed)
    if changed is None:
        return [], ""
    shake_s = usual_shake(table) if shake_s is None else shake_s
    fit = _fit(site, jobs, REPLAYS, seed, spread, progress)
    today, seeds = Changed(site, table, (), frozenset()), [seed + row for row in range(replicates)]
    before, after = _replays("pairs of replays", [today, changed], seeds, shake_s, spread, progress)
    return limit_advice(today, changed, before, after), too_far(fit)


def _fit(site: Site, jobs: SlurmJobs, replays: int, seed: int, spread: Map, progress: Progress) -> dict[str, Any]:
    """Return the figures of parity for :func:`sim.site.parity.too_far`, by the replays that parity makes."""
    table = jobs.table
    if not (table["start_s"] >= 0).any():
        raise InputError(f"{jobs.name}: none of its jobs has started: there is no schedule to compare with")
    site = with_computations(site, jobs.runs)
    today, seeds = Changed(site, table, (), frozenset()), [seed + row for row in range(replays)]
    replayed = Open.of(table, _replays("replays of the record", [today], seeds, 0, spread, progress)[0])
    if not replayed.starts.any():
        raise InputError(f"{jobs.name}: no job starts on the site's nodes: its files do not have what the jobs ask for")
    progress("single decisions", 0, 1)
    return {**replayed.summary(), **decisions(site, jobs.runs, seed).summary(), "phases_from_log": False}


def _before(changed: Changed, until_s: int) -> Changed:
    return changed._replace(jobs=changed.jobs[changed.jobs["submit_s"] < until_s].reset_index(drop=True))


def _after(changed: Changed, from_s: int) -> Changed:
    return changed._replace(jobs=changed.jobs[changed.jobs["submit_s"] >= from_s].reset_index(drop=True))


def _replays(
    stage: str, changes: Sequence[Changed], seeds: Sequence[int], shake_s: int, spread: Map, progress: Progress
) -> list[np.ndarray]:
    """Return the starts of jobs under each change, float64 [replicates, jobs] each."""
    work = Replays(changes, shake_s)
    starts = [np.empty((len(seeds), len(changed.jobs))) for changed in changes]
    pieces = [[row, seed] for row in range(len(changes)) for seed in seeds]
    progress(stage, 0, len(pieces))
    for done, (row, seed, start) in enumerate(spread(work, pieces), 1):
        starts[row][seeds.index(seed)] = start
        progress(stage, done, len(pieces))
    return starts


def records(study: WhatIf) -> list[dict[str, Any]]:
    """Return what ``--json`` prints: one object per candidate and metric.

    A figure is None if the candidate was not judged, or if no job waits today.
    """
    rows: list[dict[str, Any]] = []
    for name in study.ranked:
        common = {"candidate": name, "verdict": study.verdict(name), "lines": list(study.lines(name))}
        counts: dict[str, Any] = {"kills": len(study.changes[name].kills), "never_started": study.effects[name].never}
        killed = study.jobs.table["account"][study.jobs.table["job_id"].isin(study.changes[name].kills)]
        if len(killed):
            counts["killed_by_account"] = {str(account): int((killed == account).sum()) for account in killed.unique()}
        for metric, measured in study.effects[name].metrics.items():
            change = measured.relative if np.isfinite(measured.relative) else None
            rows.append({**common, "metric": metric, "change": change, "low": measured.low, "high": measured.high, **counts})
    none = {"metric": JUDGED_BY[0], "change": None, "low": None, "high": None}
    rows += [{**none, "candidate": name, "verdict": NOT_JUDGED[0], "change": change} for name, change in study.screened.items()]
    rows += [{**none, "candidate": name, "verdict": NOT_JUDGED[1]} for name in study.idle]
    return rows
