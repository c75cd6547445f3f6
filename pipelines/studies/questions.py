"""Settings of questions about predictors and about a site, for commands and Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from sim.settings import ALL, BASELINES, CheckedSettings, Count, TraceSettings


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_several)]
"""One text, or several."""


class SiteSettings(CheckedSettings):
    """A Slurm site and its record."""

    accounting: Path = Field(description="The site's record.")
    machine: Path = Field(
        description="The site: a folder with slurm.conf and what queuecast machine --commands lists, or slurm.conf alone."
    )
    seed: Count = Field(default=0, description="Draws phases, and moves of submissions.")
    timezone: str | None = Field(
        default=None, title="time-zone", description="IANA time zone of the local times in all files. [default: UTC]"
    )


class ParitySettings(SiteSettings):
    """How often a record is replayed, and with which log beside it."""

    replays: Annotated[int, Field(ge=2, le=10_000)] = Field(default=40, description="Replays, each with phases of its own.")
    log: Path | None = Field(default=None, description="slurmctld's log of the same time: the phases are its.")


class ReplaySettings(SiteSettings):
    """How often a site is replayed with and without a change."""

    replicates: Annotated[int, Field(ge=2, le=1_000)] = Field(default=8, description="Pairs of replays of each candidate.")
    shake_s: Count | None = Field(
        default=None,
        title="shake",
        description="Seconds by which submissions move at most. [default: 60, at most a tenth of the mean wait and of the median runtime]",
    )


class WhatIfSettings(ReplaySettings):
    """Which changes are tried, and how often."""

    candidates: Path | None = Field(
        default=None,
        description="TOML of candidates of your own, tried beside the catalogue's and those of candidates.toml in the site's folder.",
    )
    only: Texts = Field(default=(), description="Try only this candidate.")


class WhenSettings(CheckedSettings):
    """A queue, the jobs that are asked about, and the model that answers."""

    trace: str = Field(description="A trace that was run, or a Slurm site's accounting.")
    queue: Path = Field(
        description="What runs and waits now: squeue's text, or CSV with columns jobid state user partition cpus time_limit submit_time "
        "start_time.",
    )
    jobs: Texts = Field(
        default=(), title="job", description="A job to be submitted, as 'procs=16 time=2:00:00 user=ann queue=batch'."
    )
    ids: Texts = Field(default=(), title="id", description="A job of the queue, by default all that wait.")
    now: str | None = Field(
        default=None,
        description="The site's local time of the snapshot. [default: the UTC time in its name, as 20260301T090000Z, "
        "else when its file was written]",
    )
    machine: Path | None = Field(
        default=None,
        description="The Slurm site, as queuecast parity takes it. [default: the one that the catalogue states of TRACE]",
    )
    timezone: str | None = Field(
        default=None,
        title="time-zone",
        description="IANA time zone of a Slurm site's local times. [default: the catalogue's, else UTC]",
    )
    model: str | None = Field(
        default=None, description="Registered model, NAME@ALIAS, of other sites. [default: start-TRACE@champion]"
    )
    scenarios: Annotated[int, Field(ge=1, le=1_024)] | None = Field(
        default=None,
        description="In how many the queue is run ahead. [default: 64; of a Slurm site 16, where over 400 jobs wait]",
    )
    seed: Count = Field(default=0, description="Draws the scenarios.")


class Protocol(TraceSettings):
    """How predictors are asked and judged.

    They are asked in a simulation under ``scheduler`` and judged against ``baseline``, with the quantile losses of
    ``levels``.
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
    levels: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.5,), title="level", description="Level of a quantile (pinball) loss."
    )
    seed: int = Field(default=0, description="Seed of random predictors (lightgbm, quantile).")

    @field_validator("levels")
    @classmethod
    def _once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(values))

    @model_validator(mode="after")
    def _check(self) -> Protocol:
        from sim.campaigns.campaign import predictor_name
        from sim.campaigns.quality import baseline_of

        baseline_of([predictor_name(predictor) for predictor in self.predictors], self.baseline)
        return self
