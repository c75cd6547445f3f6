"""Advice about time limits, as a table and as a text for each user."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from pipelines.report.table import Table
from pipelines.report.wording import duration
from sim.site.limit_advice import ALIKE, FEWEST, LimitAdvice

_NEAREST = 3
_COLUMNS = {"user": "{user}", "account": "{account}", "processors": "{procs:,}", "jobs": "{jobs:,}", "asked": "{asked}"}
_COLUMNS |= {"used": "{used:.0%}", "limit": "{limit}", "ran longer": "{longer:,}", "sooner": "{sooner}", "95 %": "{low} to {high}"}


def table_of(advice: Sequence[LimitAdvice]) -> Table:
    """Return the advice as a table, a row for each user and kind of job."""
    rows = [
        {**shorter._asdict(), "asked": duration(shorter.requested_s), "limit": duration(shorter.limit_s)}
        | {name: _signed(getattr(shorter, f"{name}_s")) for name in ("sooner", "low", "high")}
        for shorter in advice
    ]
    return Table.of("Time limits that surely start jobs sooner", _COLUMNS, rows, left=("user", "account"))


def misses(advice: Sequence[LimitAdvice], jobs: pd.DataFrame) -> str:
    """Return how many kinds of jobs could be judged, and the three nearest to advice.

    ``jobs`` are those of a replay; a kind is a user's jobs of the same account, processors and request.
    """
    sizes = jobs[jobs["start_s"] >= 0].groupby(ALIKE, sort=True).size().sort_values(ascending=False, kind="stable")
    enough = int((sizes >= FEWEST).sum())
    text = f"of {len(sizes):,} kinds of jobs (user, account, processors, request), {enough:,} had the {FEWEST} jobs that are needed"
    if advice:
        nearest = [
            f"{shorter.user} ({shorter.longer:,} of {shorter.jobs:,} ran longer, {_signed(shorter.low_s)} to {_signed(shorter.high_s)} sooner)"
            for shorter in sorted(advice, key=lambda shorter: -shorter.low_s)[:_NEAREST]
        ]
        return f"{text}, and {len(advice):,} got a shorter limit often enough; nearest: {', '.join(nearest)}"
    top = sizes[:_NEAREST].rename("count").reset_index().to_dict("records")
    largest = [f"{row['user']} ({row['count']:,} jobs of {row['cpus']:,} processor{'s' * (row['cpus'] != 1)})" for row in top]
    return f"{text}, and none got a shorter limit that often" + (f"; the largest: {', '.join(largest)}" if largest else "")


def letter(user: str, advice: Sequence[LimitAdvice]) -> str:
    """Return the advice for a user as a text, or "" if there is none."""
    own = [shorter for shorter in advice if shorter.user == user]
    if not own:
        return ""
    lines = [f"Your jobs, {user}, could start sooner if they asked for less time. Slurm kills a job at its limit.", ""]
    for shorter in own:
        lines += [
            f"* Jobs of {shorter.procs:,} processors that ask for {duration(shorter.requested_s)}: they used {shorter.used:.0%} of it in the "
            f"median. With a limit of {duration(shorter.limit_s)}, about one in twenty would be killed: of the last {shorter.jobs:,}, "
            f"{shorter.longer:,} ran longer than the limit that was predicted for them. If all users asked so, they would start "
            f"{duration(shorter.sooner_s)} sooner in the mean, by simulation ({duration(shorter.low_s)} to {duration(shorter.high_s)})."
        ]
    return "\n".join(lines)


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{duration(abs(seconds))}"
