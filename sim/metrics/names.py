"""Every metric of a schedule: names, format, direction, meaning and source.

All tables, pages and comparisons use this list. A metric is an entry here, a formula in
:mod:`sim.metrics.schedule_metrics`, and a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_GOPONENKO = "Goponenko et al., Metrics for packing efficiency and fairness of HPC cluster batch job scheduling (SBAC-PAD 2022)"
_ZAKAY = "Zakay & Feitelson, Semi-open trace based simulation for reliable evaluation of job throughput and user productivity (CloudCom 2015)"
_FEITELSON = "Feitelson et al., Theory and practice in parallel job scheduling (JSSPP 1997)"
_KLUSACEK = "Klusáček & Chlumský, Planning and metaheuristic optimization in production job scheduler (JSSPP 2017)"

_NICHOLS = "Nichols et al., Resource utilization aware job scheduling to mitigate performance variability"

TAU_S = 10.0
"""The usual threshold of bounded slowdown, seconds: shorter runtimes count as this."""

Kind = Literal["seconds", "ratio", "share", "count"]


@dataclass(frozen=True)
class Metric:
    """A metric's name, format and direction.

    ``title`` and ``meaning`` are for text. ``short`` is the heading on a terminal, where values have the format
    ``form``. A comparison of schedules includes ``compared`` metrics by default.
    """

    title: str
    kind: Kind
    meaning: str
    source: str
    lower_is_better: bool = True
    compared: bool = True
    short: str = ""
    form: str = ""


METRICS: dict[str, Metric] = {
    "mean_bounded_slowdown": Metric(
        "mean bounded slowdown",
        "ratio",
        "Response time over runtime, runtimes below τ counted as τ, never below 1; mean over jobs. What users of short jobs notice. It "
        "falls whenever short jobs go first, even at the cost of wide or long ones.",
        _FEITELSON,
        short="slowdown",
        form=",.2f",
    ),
    "mean_slowdown": Metric(
        "mean slowdown", "ratio", "Response time over runtime; a few jobs of seconds that waited for hours dominate it.", _FEITELSON
    ),
    "mean_wait_s": Metric(
        "mean wait",
        "seconds",
        "Time from submission to start; every job counts the same.",
        _FEITELSON,
        short="mean wait s",
        form=",.1f",
    ),
    "mean_response_s": Metric(
        "mean response", "seconds", "Time from submission to end (AF, flow time): the wait and the runtime.", _FEITELSON
    ),
    "awf_s": Metric(
        "AWF",
        "seconds",
        "Response time weighted by area (processors × runtime). It does not change when jobs merely swap places in the same profile of "
        "busy processors, so it measures packing.",
        _GOPONENKO,
        short="AWF s",
        form=",.0f",
    ),
    "p2sf_s": Metric(
        "P²SF",
        "seconds",
        "Age of each processor-second of work when it is done, weighted by its age squared. It rises when old work is passed over, so it "
        "measures packing and fairness together.",
        _GOPONENKO,
        short="P²SF s",
        form=",.0f",
    ),
    "longest_wait_s": Metric(
        "longest wait",
        "seconds",
        "The longest wait of the jobs submitted in a week, mean over weeks. Where it grows, some jobs pay for the others.",
        "of this project",
        short="longest wait s",
        form=",.0f",
    ),
    "max_wait_s": Metric(
        "longest wait of all",
        "seconds",
        "The wait of the job that waited longest: the fate of one job.",
        _FEITELSON,
        compared=False,
    ),
    "underprediction_rate": Metric(
        "under-predicted",
        "share",
        "Share of jobs that ran longer than was predicted at their submission.",
        "Gaussier et al. (SC 2015)",
    ),
    "max_bounded_slowdown": Metric("worst bounded slowdown", "ratio", "The largest bounded slowdown of a job.", _FEITELSON),
    "utilization": Metric(
        "utilization",
        "share",
        "Work done over what the machine could do between the first submission and the last end. The load decides it more than the scheduler.",
        _FEITELSON,
        lower_is_better=False,
        short="utilized",
        form=".2%",
    ),
    "makespan_s": Metric(
        "makespan", "seconds", "Time from the first submission to the last end; the last jobs decide it.", _FEITELSON
    ),
    "varied_runs": Metric(
        "runs with variation",
        "ratio",
        "Runs of a trial that took more than 1.5 standard deviations longer than the mean of control runs of the same application and size.",
        _NICHOLS,
        compared=False,
    ),
    "largest_runtime": Metric(
        "largest runtime",
        "ratio",
        "The largest runtime of a trial over the mean of control runs of the same application and size.",
        _NICHOLS,
        compared=False,
    ),
    "throughput_per_day": Metric(
        "throughput",
        "count",
        "Jobs a day from the first submission until nine tenths of the jobs have ended; the last ones may be one user's. Where submissions are as "
        "recorded the trace decides it, where users react the scheduler too.",
        _ZAKAY,
        lower_is_better=False,
        compared=False,
    ),
    "carried_load": Metric(
        "carried load",
        "share",
        "Work done over what the machine could do, until nine tenths of the jobs have ended. Shorter mean waits raise it in the closed loop.",
        _ZAKAY,
        lower_is_better=False,
        compared=False,
    ),
    "underpredicted_jobs": Metric(
        "under-predicted jobs",
        "count",
        "Jobs that ran longer than was predicted at their submission.",
        "Gaussier et al. (SC 2015)",
        compared=False,
        short="under-predicted",
        form=",d",
    ),
    "corrections": Metric(
        "corrections",
        "count",
        "How often an outlived prediction was replaced.",
        "Tsafrir et al. (TPDS 2007)",
        compared=False,
        short="corrections",
        form=",d",
    ),
    "nuwt_mean": Metric(
        "NUWT, mean",
        "ratio",
        "Normalised user wait time: a user's total wait over the processor-seconds it used, in seconds for each; mean over users. Below 1 "
        "a user computed for longer than it waited.",
        _KLUSACEK,
        compared=False,
    ),
    "nuwt_sd": Metric("NUWT, standard deviation", "ratio", "How far apart users are in it.", _KLUSACEK, compared=False),
    "clamped_predictions": Metric(
        "clamped predictions",
        "count",
        "Predictions outside 1 second to the request, which were cut.",
        "of the simulator",
        compared=False,
        short="clamped",
        form=",d",
    ),
    "simulate_s": Metric("simulation", "seconds", "Wall time of the simulation alone.", "of the simulator", compared=False),
}

COMPARED = tuple(name for name, metric in METRICS.items() if metric.compared)
"""The metrics of a comparison by default."""
READ_FIRST = ("mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s", "longest_wait_s")
"""The most important metrics of a comparison: those of a verdict, and the mean wait."""
SHOWN = (
    "mean_wait_s",
    "mean_bounded_slowdown",
    "awf_s",
    "p2sf_s",
    "longest_wait_s",
    "utilization",
    "underpredicted_jobs",
    "corrections",
    "clamped_predictions",
)
"""The metrics of tables on a terminal; these have a ``short`` heading and a ``form``."""
