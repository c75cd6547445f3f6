"""What is judged of predictions by default, and against what."""

ALL = (
    *("requested", "last2", "hierarchy", "sp2", "sp3", "sp4", "knn", "okcm", "nag", "cv-triple"),
    *("lightgbm(every=7)", "quantile(every=7)", "quantile(order=accuracy,every=7)"),
)
"""Every predictor that does not know runtimes beforehand, the cheapest first. Those that are retrained learn weekly, as
registered models do, at a seventh of the cost of learning nightly."""
PARTS = ("all", "first-half", "second-half")
"""Parts of the jobs to judge: of n jobs in order of submission the first n // 2 are the first half. All jobs are simulated."""
BASELINES = ("last2", "requested")
"""Default baselines; the first that was simulated is used."""
