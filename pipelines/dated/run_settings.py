"""What a run of the pipeline simulates, as one value.

The options of ``queuecast run`` and the config of assets are made of it.
"""

from __future__ import annotations

from pydantic import Field

from sim.settings import Campaign, TraceSettings

SCHEDULERS = ("EASY", "EASY-SJBF", "EASY-SRF")
WEIGHING = ("Harm",)
"""Simulated by default with predictors that tell a distribution, exact runtimes and registered models: not with those that learn a point."""
PRIOR = "prior"
"""What these go by in place of requests: the distribution that a request tells without any model."""
COMPARED = ("requested", "last2", "lightgbm", "quantile", "clairvoyant")
CORRECTIONS = ("conditional(when=pass)",)
"""Simulated by default: every learned predictor under one correction, so that predictors are compared and not corrections."""


class RunSettings(TraceSettings):
    """The simulations of a run, and the date up to which it learns; a night has its own."""

    schedulers: tuple[str, ...] = Field(
        default=SCHEDULERS,
        title="scheduler",
        description=f"{Campaign.model_fields['schedulers'].description} By default also, with {PRIOR} and those of the predictors that do not "
        f"learn a point, {', '.join(WEIGHING)}. EASY is always there to compare with.",
    )
    weighing: tuple[str, ...] = Field(
        default=WEIGHING,
        description=f"More schedulers, with {PRIOR} instead of requests and without predictors that learn a point.",
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
    grows: bool | None = Field(
        default=None,
        title="grows/--static",
        description="Whether the trace goes on to grow, so that it is retrained every night. [default: Slurm accounting does, SWF and Parquet "
        "files do not]",
    )
    seed: int = Field(default=0, description="Seed of trainings, of schedulers that draw, and of random predictors.")
