"""How predictors are judged: the settings of ``queuecast evaluate`` and of assets."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sim.predictions.names import ALL, BASELINES, PARTS
from sim.settings import TraceSettings


class Protocol(TraceSettings):
    """How predictors are asked and judged.

    They are asked in a simulation under ``scheduler`` and judged over ``parts`` of the trace, against ``baseline``, with the
    quantile losses of ``levels``.
    """

    predictors: tuple[Any, ...] = Field(
        default=ALL,
        title="predictor",
        description="A predictor to judge.",
        json_schema_extra={"default": "all but the bound"},
    )
    scheduler: str = Field(
        default="EASY",
        description="[ORDER-]ALGORITHM[-BACKFILLORDER], with POLICY(FILE.json) or POLICY(registry:NAME[@ALIAS]) as an order: it decides what has "
        "ended by when.",
    )
    baseline: str | None = Field(
        default=None, description=f"The predictor to compare with. [default: {', else '.join(BASELINES)}, else the first]"
    )
    parts: tuple[Literal[PARTS], ...] = Field(  # type: ignore[valid-type]
        default=("all",), title="part", description="Jobs to judge; all are simulated."
    )
    levels: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.5,), title="level", description="Level of a quantile (pinball) loss."
    )
    seed: int = Field(default=0, description="Seed of random predictors (lightgbm, quantile).")

    @field_validator("parts", "levels")
    @classmethod
    def _once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(values))

    @model_validator(mode="after")
    def _check(self) -> Protocol:
        from sim.campaigns.campaign import predictor_name
        from sim.predictions.quality import baseline_of

        baseline_of([predictor_name(predictor) for predictor in self.predictors], self.baseline)
        return self
