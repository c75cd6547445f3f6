"""Settings of one monitored system."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, Strict

from models.variability.classifiers import CANDIDATES, CLASSIFIERS
from sim.settings import CheckedSettings

SIMULATED = "simulated"
"""Name of the embedded default, a small simulated cluster."""


Texts = Annotated[tuple[str, ...], Strict(False)]
Classifiers = Annotated[tuple[Literal[CLASSIFIERS], ...], Strict(False)]  # type: ignore[valid-type]


class System(CheckedSettings):
    """One monitored system; remembered places are absolute.

    ``queuecast variability ingest`` makes its options of these fields. ``lag_s`` is the age at which a sample can
    be read: training does not use younger ones.
    """

    model_config = ConfigDict(strict=True)

    counters: Texts = Field(default=(), description="LDMS CSV: a file, a directory with all below it, or a pattern in quotes.")
    sampler: str = Field(default="", description="The metrics' sampler, where neither ::sampler nor the file's name tells.")
    runs: str = Field(default="", description="Control runs: run_id,application,input,nodes,start_s,runtime_s.")
    accounting: str = Field(
        default="",
        description="All jobs with their nodes from Slurm accounting (sacct --parsable2, or CSV), with --job-name its control runs, too.",
    )
    job_name: str = Field(
        default="",
        description="Names of its control runs: a regular expression for the whole name, with groups (?P<application>...) and (?P<input>...).",
    )
    time_zone: str = Field(default="", description="IANA time zone of the accounting's local times, such as America/Denver.")
    probes: str = Field(default="", description="MPI probe results: run_id,node,send_s,recv_s,allreduce_s.")
    types: str = Field(default="", description="Application types: application,type (compute, network or io).")
    topology: str = Field(default="", description="Leaf switches: Slurm's topology.conf, or CSV node,leaf.")
    lag_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    scope: Literal["own", "all"] = Field(default="own", description="Counters of the run's own nodes, or of all.")
    classifiers: Classifiers = Field(
        default=CANDIDATES, title="classifier", description="A classifier that runs and nights train and judge."
    )
    elimination: bool = Field(default=False, title="eliminate", description="Eliminate features recursively before each training.")
    name: str

    @property
    def simulated(self) -> bool:
        return self.name == SIMULATED


PLACES = ("runs", "accounting", "probes", "types", "topology")
"""The fields that are files, in addition to the counters."""
