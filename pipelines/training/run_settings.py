"""The settings of a pipeline run as one value.

The options of ``queuecast run`` and the config of assets are made from it.
"""

from typing import Any

from pydantic import Field

from features.limits import SHAKE_S
from sim.settings import Campaign, Count, Positive, TraceSettings

SCHEDULERS = ("EASY", "EASY-SJBF", "Harm")
TODAY = "today"
"""Names the night of this day."""
PRIOR = "prior"
"""Predictor in place of requests for schedulers that weigh a distribution, such as Harm: what a request tells without a
model."""
COMPARED = ("requested", "quantile", "clairvoyant")
CORRECTIONS = ("conditional(when=pass)",)
"""Default: one correction for all learned predictors, so that predictors are compared and not corrections."""


class RunSettings(TraceSettings):
    """The simulations of a run, and the date up to which it learns; a night has its own."""

    schedulers: tuple[str, ...] = Field(
        default=SCHEDULERS,
        title="scheduler",
        description=f"{Campaign.model_fields['schedulers'].description} EASY is always there to compare with; Harm takes {PRIOR} for requested.",
    )
    predictors: tuple[str, ...] = Field(
        default=COMPARED,
        title="predictor",
        description=f"{Campaign.model_fields['predictors'].description} requested is always there to compare with, and the model that the run "
        "registers, as served.",
    )
    corrections: tuple[str, ...] = Field(
        default=CORRECTIONS,
        title="correction",
        description="Of predictions that a job outlives; the same for every predictor.",
    )
    until: str = Field(
        default="",
        description="Learn from what had ended by this date (1997-05-01) or second of the trace, simulate and judge what is submitted from then on. "
        "[default: the last third of the trace's time, at least four weeks, is left]",
    )
    warm_up_weeks: Count | None = Field(
        default=None,
        description="Replay no more than so many weeks before that date, in which queue and learners begin. [default: the whole trace]",
    )
    replicates: Positive = Field(
        default=1,
        description="Replays of each combination, each with submissions moved by up to a minute: intervals then contain a schedule's chaos.",
    )
    grows: bool | None = Field(
        default=None,
        title="grows/--static",
        description="Whether the trace goes on to grow, so that it is retrained every night. [default: Slurm accounting does, SWF and Parquet "
        "files do not]",
    )
    starts: bool | None = Field(
        default=None,
        title="starts/--no-starts",
        description="Whether models of when jobs start are made, too, in this run and in later nights of the trace; that takes longer.",
    )
    seed: int = Field(
        default=0, description="Seed of trainings, of schedulers that draw, and of random predictors; the first of replicates."
    )


def shaken(seed: int, replicates: int) -> dict[str, Any]:
    """Return a campaign's settings of shaken replays; none for a single replay, as recorded."""
    return {"seeds": tuple(range(seed, seed + replicates)), "shake_s": SHAKE_S} if replicates > 1 else {}


ACKNOWLEDGED = (
    "KTH-SP2 is a log of the Parallel Workloads Archive (D. Feitelson), of an IBM SP2 of the Swedish Royal Institute of Technology; where you "
    "publish results, acknowledge Lars Malinowsky and the archive."
)
FIRST = RunSettings(trace="kth-sp2", warm_up_weeks=4, replicates=2)
"""Settings of a run without a trace and a system: a real log, within a minute on two cores."""
