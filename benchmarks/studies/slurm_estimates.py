"""Say how far Slurm's own estimates of starts were off on two clusters, published by Mila with `slurm-queue-time-pred`.

``cedar_slurm_estimate.csv`` and ``narval_slurm_estimate.csv`` hold jobs submitted to be asked about: the start that Slurm estimated at the
submission, and the true one. Nothing is fitted. ``--write`` writes the card and its rows.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.common.card import Card, parser, study

AT_ONCE_S, HOUR_S = 60.0, 3_600.0


def measured(shared: Path) -> pd.DataFrame:
    """Return a row a job: cluster, limit in hours, and true less estimated start, seconds."""
    tables = []
    for cluster in ("cedar", "narval"):
        table = pd.read_csv(shared / "queues" / f"{cluster}_slurm_estimate.csv")
        true, estimated = (pd.to_datetime(table[f"{which}_start_time"]) for which in ("true", "estimate"))
        limit_h = pd.to_timedelta(table["time"]).dt.total_seconds() / HOUR_S
        tables.append(pd.DataFrame({"cluster": cluster, "limit_h": limit_h, "late_s": (true - estimated).dt.total_seconds()}))
    return pd.concat(tables, ignore_index=True)


def _row(name: str, late_s: pd.Series) -> list[str]:
    off = late_s.abs()
    shares = ((late_s < -AT_ONCE_S).mean(), (late_s > AT_ONCE_S).mean(), (off > HOUR_S).mean())
    return [
        name,
        str(len(late_s)),
        f"{off.median() / 60:.0f}",
        f"{off.quantile(0.9) / 60:.0f}",
        *(f"{100 * share:.0f} %" for share in shares),
    ]


def card(rows: pd.DataFrame, how: str) -> Card:
    """Return the card of the study."""
    cells = []
    for cluster, jobs in rows.groupby("cluster"):
        cells.append(_row(str(cluster), jobs["late_s"]))
        cells += [_row(f"{cluster}, limit {limit:.0f} h", each["late_s"]) for limit, each in jobs.groupby("limit_h")]
    cedar, narval = (rows[rows["cluster"] == name]["late_s"] for name in ("cedar", "narval"))
    names = ["jobs", "median off, min", "90 % off, min", "sooner", "later", "off over 1 h"]
    return Card(
        question="How good are Slurm's own estimates of starts?",
        answer=f"Half of the {len(rows)} estimates are off by over {rows['late_s'].abs().median() / 60:.0f} minutes, and "
        f"{100 * (rows['late_s'].abs() > HOUR_S).mean():.0f} % by over an hour. On cedar {100 * (cedar < -AT_ONCE_S).mean():.0f} % of jobs start "
        f"sooner than estimated, those of long limits above all; on narval {100 * (narval > AT_ONCE_S).mean():.0f} % start later.",
        table=pd.DataFrame(cells, columns=["cluster", *names]),
        table_caption="True against estimated start, by cluster and limit of the job; sooner or later by over a minute:",
        fails="The files hold no time of submission, so errors cannot be told by lead time, nor set beside the wait. Jobs came in bursts on "
        "six days of 2022, so that many rows are one event. Nothing was predicted by us: there is no record to predict from.",
        data=["slurm-estimates.csv"],
        made_by=how,
    )


def main() -> None:
    options = parser(__doc__).parse_args()
    study(options, "studies.slurm_estimates", "slurm-estimates.csv", lambda: measured(options.shared), card)


if __name__ == "__main__":
    main()
