"""How far the waits in replays of a site are from the recorded waits.

A record is one sample: no accounting has the phases of Slurm's clocks, and two real runs of the same submissions
differ. So there are many replays, each with phases of its own, and the record is compared with their range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.node_list import expand_nodes
from features.statistics import range_of_next
from sim.site.replay import replay
from sim.slurm.phases import Phases
from sim.slurm.site import Site

HELD_MEANS, HELD_GROUPS, HELD_WAITS = (26, 28), 0.93, 0.93
"""How many of the recorded runs have their mean wait in its range, of how many; shares of their groups' means and jobs' waits.

At 40 replays each (docs/studies/data/slurm-replays.csv).
"""
LEAST_DECIDED, FARTHEST_BY_LOG = 0.9, 0.1
"""Bounds of :func:`too_far`. Mean waits of two real runs of the same submissions differ by up to 8 %."""
RANGE = "where the mean wait of one more replay lies with 95 %, by {replays} replays of today's settings"
"""What the range is of."""
WITHIN_S = (1, 5, 30)
BY = ("partition", "qos", "account", "size", "hour")
_SIZES = (1, 2, 5, 17, 65, 257, 1025)
_FITTED = 2000
_NAMED = 4
NOISE_S = 30
"""Seconds outside the range over phases that need no explanation: a backfill cycle earlier or later."""
_PHASES, _NODES, _LICENSES = "phases of Slurm's clocks", "nodes that were not there", "licenses that others hold"
_HELD, _BY_HAND = "holds and releases", "priorities and holds by hand, or limits"
_QUEUES = "squeue every minute (Priority, nice, Reason), to look at yourself"
EXPORTS = {
    _PHASES: "slurmctld.log, for --log",
    _NODES: "events.txt and reservations.txt of this time",
    _LICENSES: "scontrol show licenses every minute, to look at yourself",
    **{_HELD: _QUEUES, _BY_HAND: _QUEUES},
}
"""What accounting does not tell and may have moved jobs, and the export that would."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Open:
    """The waits of open replays.

    ``wait_s`` float64 [replays, jobs] are seconds until a job starts or, if that comes first, is cancelled; NaN for a
    job that does neither. ``recorded_s`` [jobs] are the recorded waits. A wait that a cancellation ended counts on both
    sides: means over jobs that started in the record would leave out its long waits, but not those of the replays.
    ``ran`` bool [jobs]: which started in the record; ``started``: in the record or in some replay.
    """

    wait_s: np.ndarray
    recorded_s: np.ndarray
    ran: np.ndarray
    started: np.ndarray

    @classmethod
    def of(cls, jobs: pd.DataFrame, start_s: np.ndarray) -> Open:
        """Return the waits of starts, float64 [replays, jobs], in whole seconds as in accounting."""
        submit, start, gone = (jobs[name].to_numpy(np.float64) for name in ("submit_s", "start_s", "cancel_s"))
        gone = np.where(gone < 0, np.nan, gone)
        with_others = jobs["withdrawn_s"].to_numpy(np.float64) if "withdrawn_s" in jobs else np.full(len(jobs), -1.0)
        until = np.where(np.isfinite(start_s), np.floor(start_s), np.where(with_others < 0, gone, with_others))
        ran = start >= 0
        return cls(until - submit, np.where(ran, start, gone) - submit, ran, ran | np.isfinite(start_s).any(axis=0))

    @property
    def starts(self) -> np.ndarray:
        """Tell for which of the jobs that ran the wait ends in every replay, bool [jobs]."""
        return np.asarray(np.isfinite(self.wait_s).all(axis=0) & self.ran)

    @property
    def counted(self) -> np.ndarray:
        """Tell over which jobs mean waits are, bool [jobs].

        They start in the record or in some replay.
        """
        return np.asarray(np.isfinite(self.wait_s).all(axis=0) & np.isfinite(self.recorded_s) & self.started)

    @property
    def lost(self) -> np.ndarray:
        """Tell for which of the jobs that ran the wait does not end in every replay, bool [jobs]."""
        return np.asarray(self.ran & ~self.starts)

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the range of each job's wait in seconds, float64 [jobs] and [jobs]."""
        return range_of_next(np.nan_to_num(self.wait_s))

    @property
    def beyond_s(self) -> np.ndarray:
        """Return seconds of recorded waits above (positive) or below their ranges, float64 [jobs]."""
        low, high = self.ranges()
        beyond = np.maximum(self.recorded_s - high, 0.0) + np.minimum(self.recorded_s - low, 0.0)
        return np.where(self.starts, beyond, 0.0)

    def summary(self) -> dict[str, float]:
        """Return the figures of ``queuecast parity --json`` that come from open replays.

        Means are over :attr:`counted` jobs, shares of starts over those that ran.
        """
        means = self.wait_s[:, self.counted].mean(axis=1)
        low, high = range_of_next(means)
        off = np.abs(self.wait_s - self.recorded_s)[:, self.starts]
        return {
            "replays": len(self.wait_s),
            "jobs": int((self.starts | self.lost).sum()),
            "never_started": int(self.lost.sum()),
            "recorded_mean_wait_s": float(self.recorded_s[self.counted].mean()),
            "mean_wait_s": float(means.mean()),
            "low_s": float(low),
            "high_s": float(high),
            **{f"within_{seconds}_s": float((off <= seconds).mean()) for seconds in WITHIN_S},
        }


def open_replays(
    site: Site, jobs: pd.DataFrame, replays: int, seed: int, progress: Progress | None = None, phases: Phases | None = None
) -> Open:
    """Replay ``jobs`` ``replays`` times.

    Phases are drawn by the seeds from ``seed`` on, or are close to ``phases`` if given. ``jobs`` has ``start_s`` beside
    the columns of a replay.
    """
    start_s = np.empty((replays, len(jobs)))
    report = progress or (lambda done, total: None)
    report(0, replays)
    for row in range(replays):
        start_s[row] = replay(site, jobs, seed + row if phases is None else near(phases, seed + row)).start_s
        report(row + 1, replays)
    return Open.of(jobs, start_s)


def too_far(figures: Mapping[str, Any]) -> str:
    """Return why replays are too far from the record to advise, or "".

    This is the one test of fit. ``figures`` are those of :meth:`Open.summary` and
    :meth:`sim.site.explained.Decisions.summary`, and ``phases_from_log``. Under :data:`LEAST_DECIDED` of the starts are
    decided as recorded, or the recorded mean wait lies outside the range over phases. Phases of a log leave hardly a
    range: the mean may then differ by :data:`FARTHEST_BY_LOG`.
    """
    recorded, mean, low, high = (float(figures[name]) for name in ("recorded_mean_wait_s", "mean_wait_s", "low_s", "high_s"))
    if figures["decisions"] < LEAST_DECIDED:
        share, least = apart(100 * figures["decisions"], 100 * LEAST_DECIDED)
        return f"{share} % of the recorded starts are decided as recorded, under {least} %"
    if low <= recorded <= high:
        return ""
    if not figures["phases_from_log"]:
        waited, least, most = apart(recorded, low, high)
        return f"the recorded mean wait, {waited} s, lies outside {least} to {most} s, {RANGE.format(**figures)}"
    if abs(mean - recorded) <= FARTHEST_BY_LOG * recorded:
        return ""
    return (
        f"with the log's phases jobs wait {mean:,.1f} s in the mean, recorded {recorded:,.1f} s: over {FARTHEST_BY_LOG:.0%} apart"
    )


def apart(value: float, *bounds: float) -> list[str]:
    """Format a figure and its bounds with the decimals, at least one, that keep them apart."""
    for digits in range(1, 6):
        texts = [f"{figure:,.{digits}f}" for figure in (value, *bounds)]
        if texts[0] not in texts[1:]:
            break
    return texts


def fitted(site: Site, jobs: pd.DataFrame, phases: Phases, tries: int = 40) -> Phases:
    """Return the phases within their spread that most recorded starts agree with.

    A poll comes at one of 30 turns, a computation within its spread. Two numbers are chosen by the first ``_FITTED``
    jobs of the record that they are then compared with.
    """
    start = jobs["start_s"].to_numpy()[:_FITTED]

    def best(tried: list[Phases]) -> Phases:
        short = [one.of_first(_FITTED) for one in tried]
        close = [np.abs(np.floor(replay(site, jobs.iloc[:_FITTED], one).start_s) - start) <= WITHIN_S[1] for one in short]
        return tried[_middle_of_best(np.array([agree.sum() for agree in close]))]

    polls = phases.turn_s + phases.turn_length_s * np.arange(30)
    phases = best([phases._replace(poll_s=float(poll)) for poll in polls])
    later = phases.decay_s + phases.decay_spread_s * np.arange(tries) / tries
    return best([phases._replace(decay_s=float(decay), decay_spread_s=0.0) for decay in later])


def _middle_of_best(counts: np.ndarray) -> int:
    """Return the middle of the longest run of equal highest counts: at its edge milliseconds would change what is
    best."""
    edges = np.flatnonzero(np.diff(counts == counts.max(), prepend=False, append=False))
    first, behind = edges[::2], edges[1::2]
    longest = int(np.argmax(behind - first))
    return int(first[longest] + behind[longest] - 1) // 2


def near(phases: Phases, seed: int, by_s: float = 0.02) -> Phases:
    """Return phases moved by up to ``by_s``, as a log's clock is not exact either."""
    random = np.random.default_rng([seed, 0x52])
    turn, cycle, decay = random.uniform(0, by_s, 3)
    return phases._replace(
        turn_s=phases.turn_s + turn, cycle_s=phases.cycle_s + cycle, decay_s=phases.decay_s + decay, cycles_s=phases.cycles_s + cycle,
        passes_s=phases.passes_s + turn, direct_s=phases.direct_s + turn,
        parts_s=phases.parts_s + random.uniform(-by_s / 2, by_s / 2, len(phases.parts_s)),
    )  # fmt: skip


def by_group(jobs: pd.DataFrame, replays: Open, by: str, timezone: str = "UTC") -> pd.DataFrame:
    """Return recorded and replayed mean waits by one of :data:`BY`.

    A size class is named by its min number of processors, an hour is one of the clock of ``timezone``. Columns
    ``by value jobs recorded_s mean_s low_s high_s outside``; ``outside`` tells whether the record lies outside the
    range over phases.
    """
    if by == "size":
        values = pd.Series(np.array(_SIZES)[np.searchsorted(_SIZES, jobs["cpus"], side="right") - 1])
    elif by == "hour":
        local_s = local_clock_s(jobs["submit_s"].to_numpy(np.int64), 0, timezone)
        values = pd.Series([f"{hour:02d}" for hour in local_s // 3600 % 24])
    else:
        values = jobs[by].astype(str)
    rows = []
    values = values[replays.counted]
    for value, chosen in values.groupby(values).groups.items():
        rows_of_class = np.asarray(chosen)
        means = replays.wait_s[:, rows_of_class].mean(axis=1)
        low, high = range_of_next(means)
        recorded = float(replays.recorded_s[rows_of_class].mean())
        name, outside = f"{value:,} or more" if by == "size" else value, not low <= recorded <= high
        rows.append((by, name, len(rows_of_class), recorded, float(means.mean()), float(low), float(high), outside))
    return pd.DataFrame(rows, columns=["by", "value", "jobs", "recorded_s", "mean_s", "low_s", "high_s", "outside"])


def unexplained(site: Site, jobs: pd.DataFrame, replays: Open, most: int = 50) -> pd.DataFrame:
    """Return the jobs whose recorded wait lies over 30 s outside the range over phases.

    The farthest come first, at most ``most``. Columns
    ``job_id user partition qos cpus recorded_s low_s high_s beyond_s cause why``; ``cause`` is a key of
    :data:`EXPORTS`.
    """
    (low, high), beyond = replays.ranges(), replays.beyond_s
    rows = np.argsort(-np.abs(beyond), kind="stable")[:most]
    rows = rows[np.abs(beyond[rows]) > NOISE_S]
    table = jobs.iloc[rows][["job_id", "user", "partition", "qos", "cpus"]].reset_index(drop=True)
    explained = [_explained(site, jobs, row, beyond[row]) for row in rows]
    return table.assign(
        recorded_s=replays.recorded_s[rows], low_s=low[rows], high_s=high[rows], beyond_s=beyond[rows],
        cause=[cause for cause, _ in explained], why=[why for _, why in explained],
    )  # fmt: skip


def causes(replays: Open, unexplained: pd.DataFrame, logged: bool, columns: Mapping[str, float]) -> pd.DataFrame:
    """Return what could explain the record, the largest first, and the export that would tell.

    Each of the ``unexplained`` jobs counts for one cause, with the seconds outside its range; phases count for those
    inside, unless they are ``logged``. ``columns`` are sacct's that are missing, with the share of the mean wait by
    which that moved recorded runs. Columns ``cause jobs explains_s export``; seconds are summed over jobs.
    """
    inside_s = np.abs(replays.recorded_s - np.nan_to_num(replays.wait_s).mean(axis=0)) - np.abs(replays.beyond_s)
    inside_s = inside_s[replays.starts & (inside_s > 0) & (not logged)]
    rows = [(_PHASES, len(inside_s), float(inside_s.sum()), EXPORTS[_PHASES])]
    for cause, jobs in unexplained.groupby("cause"):
        rows.append((str(cause), len(jobs), float(jobs["beyond_s"].abs().sum()), EXPORTS[str(cause)]))
    ran, recorded_s = int(replays.starts.sum()), float(replays.recorded_s[replays.starts].sum())
    rows += [(f"no column {name}", ran, share * recorded_s, f"{name} of sacct") for name, share in columns.items()]
    table = pd.DataFrame(rows, columns=["cause", "jobs", "explains_s", "export"])
    return table[table["explains_s"] > 0].sort_values("explains_s", ascending=False, kind="stable", ignore_index=True)


def exports(causes: pd.DataFrame, most: int = 3) -> list[str]:
    """Return the exports that would explain most, in order, from a table of :func:`causes`."""
    return causes.groupby("export")["explains_s"].sum().sort_values(ascending=False, kind="stable").index[:most].tolist()


def _explained(site: Site, jobs: pd.DataFrame, row: int, beyond: float) -> tuple[str, str]:
    """Return a cause of :data:`EXPORTS`, and in an operator's words what may explain a wait that no replay has."""
    job = jobs.iloc[row]
    if beyond < 0:
        why = "started sooner than the rules let it: a raised priority, a reservation, or nodes that the site's files do not show"
        return _BY_HAND, why
    if job["reservation"]:
        return _NODES, f"ran in the reservation {job['reservation']}"
    if job["eligible_s"] >= 0:
        return _HELD, "became eligible late: a hold, a begin time or a dependency"
    if job["licenses"]:
        return _LICENSES, f"asked for licenses, {job['licenses']}, which others may have held"
    if (idle := idle_nodes(site, jobs, row, beyond)) is None:
        return _BY_HAND, "started later than the rules let it: a hold, a limit, or a lowered priority"
    names, *span = idle
    first, last = (f"{datetime.fromtimestamp(second, ZoneInfo(site.timezone)):%H:%M:%S}" for second in span)
    listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    free = f"nodes {listed} stayed free from {first} to {last} while it waited and fitted"
    return _NODES, f"{free}: is reservations.txt whole, and nothing held?"


def idle_nodes(site: Site, jobs: pd.DataFrame, row: int, beyond_s: float) -> tuple[list[str], int, int] | None:
    """Return nodes that stayed free beside a waiting job that fitted, begin and end, or None.

    They are looked for in the last ``beyond_s`` seconds before its start.
    """
    job = jobs.iloc[row]
    begin, end = int(job["start_s"] - beyond_s), int(job["start_s"])
    ends = jobs.loc[(jobs["start_s"] >= 0) & jobs["end_s"].between(begin, end), "end_s"]
    for first_s in (second for second in sorted({begin, *ends.astype(int).tolist()}) if second + NOISE_S <= end):
        names = _idle(site, jobs, job, first_s, first_s + NOISE_S)
        if not names:
            continue
        later = jobs.loc[(jobs["start_s"] > first_s) & (jobs["start_s"] < end), ["start_s", "nodes"]].sort_values("start_s")
        taken = (int(at) for at, text in later.itertuples(index=False) if text and not {*names}.isdisjoint(expand_nodes(text)))
        return names, first_s, next(taken, end)
    return None


def _idle(site: Site, jobs: pd.DataFrame, job: pd.Series, begin_s: int, end_s: int) -> list[str]:
    """Return the nodes that no file says why they stayed without jobs from ``begin_s`` to ``end_s``, if the job fits on
    them."""
    ran = (jobs["start_s"] >= 0) & (jobs["start_s"] < end_s) & (jobs["end_s"] > begin_s)
    busy = {name for text in jobs.loc[ran, "nodes"].unique() if text for name in expand_nodes(text)}
    busy |= {outage.node for outage in site.outages if outage.start_s < end_s and outage.end_s > begin_s}
    for reservation in site.reservations:
        if any(start < end_s and end > begin_s for start, end in reservation.times(begin_s, end_s)):
            busy |= reservation.nodes
    parts = [site.partitions[name].nodes for name in str(job["partition"]).split(",") if name in site.partitions]
    wanted = {job["features"]} - {""}
    free = [node for node in site.nodes if any(node.name in part for part in parts) and wanted <= node.features]
    free = [node for node in free if node.name not in busy and (job["gpus"] == 0 or node.gpus > 0)]
    enough = len(free) >= max(job["min_nodes"], 1) and sum(node.cpus for node in free) >= job["cpus"]
    return [node.name for node in free] if enough and sum(node.gpus for node in free) >= job["gpus"] else []
