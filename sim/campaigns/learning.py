"""How an order of waiting jobs is learned: settings of a command and of an asset."""

from __future__ import annotations

from pydantic import Field, model_validator

from features.errors import InputError
from features.jobs.choices import SHAKE_S
from sim.metrics.names import TAU_S
from sim.settings import Count, Positive, Seconds, TraceSettings

FORMULA = "r*n**(a+b*log(r/3600));a=1;b=0"
"""The default form: SAF at its start; ``b`` is how the weight of processors grows with the request. One of four forms tried on
KTH-SP2 and SDSC-SP2, including their held-out weeks."""


class Learning(TraceSettings):
    """How an order is learned and judged."""

    formula: str = Field(
        default=FORMULA, description="The score whose parameters are learned, two or more, from the values that it gives them."
    )
    starvation_s: Count | None = Field(
        default=200_000,
        title="starvation",
        description="Seconds of waiting after which a job goes to the head of the queue, in all simulations, or none.",
    )
    seed: Count = Field(default=0, description="Seed of the search and of the shakes.")
    budget: Positive = Field(default=40, description="Orders that the search tries.")
    tau_s: Seconds = Field(default=TAU_S, description="Bound of the bounded slowdown, seconds.")
    copies: Positive = Field(default=2, description="Copies of each week that is learned from: as recorded, and shaken.")
    step: float = Field(default=0.5, gt=0, description="By how much a parameter moves at first.")
    shrink: float = Field(default=0.01, ge=0, description="Penalty on the squared distance from the start, in steps.")
    most_jobs: Positive = Field(default=30_000, description="Jobs of the last weeks that are taken of a long trace.")
    held_out: float = Field(default=1 / 3, gt=0, lt=1, description="Share of the weeks that is held out, the last ones.")
    replicates: int = Field(default=10, ge=2, description="Replicates of each held-out week: as recorded, and shaken.")
    shake_s: Count = Field(default=SHAKE_S, description="Each submission of a shaken copy moves by up to so many seconds.")

    @model_validator(mode="after")
    def _check(self) -> Learning:
        from sim.schedulers.scores import score

        if len(score(self.formula).parameters) < 2:
            raise InputError(f"the score {self.formula} has fewer than the two parameters that a search takes, as in {FORMULA}")
        return self
