"""The settings of a simulation as one value, each declared, explained and bounded once.

The fields are options of the command line, the identity of journals and tables of results, and arguments in Python. A
field's ``title`` is its name on the command line, if that differs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from features.errors import InputError
from features.limits import LARGEST, MISSING_REQUEST, SHAKE_S
from features.validation import refusal
from sim.metrics.names import TAU_S

if TYPE_CHECKING:
    from sim.policy import Policy

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Factor = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False, json_schema_extra={"metavar": "FACTOR"})]
SPLITS = ("whole", "weeks", "months")
"""What is simulated separately: the whole trace, each 7 days, or each 30 days."""
CROSSING, NONE = DROP_RULES = ("crossing", "none")
"""Which jobs are in no window: those whose recorded start and end lie in different ones, or none."""


class CheckedSettings(BaseModel):
    """Settings that are checked when they are made and never change.

    Raises InputError, in one line, for unknown settings and values out of bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(refusal(error, type(self))) from None  # its lines say the same less clearly

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_is_true(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true and false for numbers, where pydantic would take 1 and 0."""
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
            raise ValueError(f"{info.field_name} must be a number or text, not {value}")
        return value

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Add the description of each setting to the docstring, for ``help``."""
        descriptions = [f"{name}: {field.description}" for name, field in cls.model_fields.items() if field.description]
        cls.__doc__ = "\n\n".join((cls.__doc__ or "", *descriptions))


class TraceSettings(CheckedSettings):
    """How a trace is read; missing settings are the catalogue's, or the file's own."""

    trace: str = Field(
        default="",
        description="A name of the catalogue, an SWF file (plain or .gz), a canonical Parquet file or a Slurm accounting file.",
    )
    procs: Positive | None = Field(default=None, description="Processors of the machine; overrides the trace.")
    timezone: str | None = Field(
        default=None,
        title="time-zone",
        description="IANA time zone of local times in Slurm accounting, such as America/Denver.",
    )
    processors: Literal["cpus", "nodes"] | None = Field(
        default=None,
        description="Which of the two a processor is in Slurm accounting. [default: the catalogue's, else cpus]",
    )
    cpus_per_node: Positive | None = Field(
        default=None,
        description="In Slurm accounting of a machine that gives whole nodes: count each node as so many processors.",
    )
    procs_from: Literal["requested", "allocated"] | None = Field(
        default=None,
        description="Which of the two are a job's processors. [default: the catalogue's, else requested]",
    )
    missing_request: Literal[MISSING_REQUEST] | None = Field(  # type: ignore[valid-type]
        default=None,
        description="Jobs that state no requested time: drop them, take their runtime, or the longest request of their queue. "
        "[default: the catalogue's, else drop]",
    )


class Campaign(TraceSettings):
    """All combinations of policies and seeds to simulate, on every window of a trace.

    Each is judged with every ``taus_s``. ``dependencies``, ``users``, ``load`` and ``squeeze`` are those of
    :func:`sim.simulate`, within each window: a job that waits for one of another window is submitted as recorded, and
    sessions and batches are formed of the window's jobs alone. Each of ``seeds`` is a replicate: the same move of every
    job for all policies. Windows are those of the recorded submissions. Predictors are names; in Python also tables for
    the whole trace, compiled ones, and functions or classes that make a Python predictor, as an object that learns
    holds the state of one simulation.
    """

    schedulers: tuple[str, ...] = Field(
        default=("EASY",),
        min_length=1,
        title="scheduler",
        description="[ORDER-]ALGORITHM[-BACKFILLORDER]. POLICY(FILE.json) and POLICY(registry:NAME[@ALIAS]) are orders, as in "
        "POLICY(FILE.json)-EASY-SPF: learned policies, shown as the formulas they are.",
    )
    predictors: tuple[Any, ...] = Field(
        default=("requested",),
        min_length=1,
        title="predictor",
        description="registry:NAME[@ALIAS] is a registered model, the champion by default; one that has learned from the replayed jobs is "
        "refused.",
    )
    corrections: tuple[str, ...] = Field(
        default=("requested",), min_length=1, title="correction", description="Of predictions that a job outlives."
    )
    semantics: tuple[str, ...] = Field(
        default=("per-second",),
        min_length=1,
        description="per-second or per-event, with options as in per-second(expiry=pass,every=30).",
    )
    starvation_s: tuple[Count | None, ...] = Field(
        default=(None,),
        min_length=1,
        title="starvation",
        description="Seconds of waiting after which a job goes to the head of the queue, or none.",
    )
    seeds: tuple[Count, ...] = Field(
        default=(0,),
        min_length=1,
        title="seed",
        description="Seed of the shake, of schedulers that draw (Harm, PlanRS), and of random predictors (lightgbm, quantile).",
    )
    taus_s: tuple[Seconds, ...] = Field(
        default=(TAU_S,), min_length=1, title="tau", description="Bound of the bounded slowdown, seconds."
    )
    dependencies: bool = Field(
        default=False,
        description="Submit a job that names a preceding job (SWF field 17) when that has ended and the think time (field 18) is over.",
    )
    shake_s: Count = Field(
        default=0,
        title="shake",
        description=f"Move each submission by up to so many seconds ({SHAKE_S} by default), drawn by the seed: one of many replays, as "
        "schedules are chaotic.",
        json_schema_extra={"metavar": "[SECONDS]", "bare": SHAKE_S},
    )
    users: str = Field(
        default="open",
        description="open: submissions as recorded; closed: users submit when what they waited for has ended, at recorded times or, as "
        "in closed(ends=EASY), those by a scheduler.",
    )
    load: Factor = Field(
        default=1.0,
        description="Divide times between submissions by this: another workload, named so wherever its numbers stand.",
    )
    squeeze: Factor = Field(
        default=1.0, description="Divide runtimes, requests and times between submissions by this; named so too."
    )
    replicates: Positive | None = Field(
        default=None, description="The seeds 0 to one less than this, instead of --seed: each seed is a replicate."
    )
    windows: Literal[SPLITS] = Field(  # type: ignore[valid-type]
        default="whole",
        description="Simulate the trace whole, or each week (7 days) or month (30 days) of submissions separately.",
    )
    keep_first: bool = Field(default=False, description="Keep the first window, which is otherwise left out as a test period.")
    drop_rule: Literal[DROP_RULES] = Field(  # type: ignore[valid-type]
        default=CROSSING,
        description="Leave out jobs whose recorded start and end lie in different windows, or none.",
    )
    machine: Path | None = Field(
        default=None,
        description="Run on the clusters of nodes that FILE describes (TOML or .machines), not on one pool of processors; queuecast "
        "simulate also on the Slurm site of a folder with its slurm.conf.",
        json_schema_extra={"metavar": "FILE"},
    )

    @field_validator("schedulers")
    @classmethod
    def _spell(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Spell schedulers as usual, so that one in other letters is no other policy."""
        from sim.schedulers.names import spelled  # imports numba, as below; pages of help need no scheduler

        return tuple(map(spelled, names))

    @model_validator(mode="after")
    def _check(self) -> Campaign:
        from sim.schedulers.names import SLURM
        from sim.simulation import check_seed

        if self.replicates is not None and self.seeds != (0,):
            raise InputError("--replicates and --seed exclude each other")
        if self.machine is not None and self.procs is not None:
            raise InputError(f"--machine {self.machine} says how many processors there are: give no --procs")
        if SLURM not in self.schedulers:
            check_seed(self.predictors, self.drawn, self.shake_s, self.schedulers)
        self.submissions.plan()
        return self

    @property
    def drawn(self) -> tuple[int, ...]:
        """Return the seed of each replicate."""
        return self.seeds if self.replicates is None else tuple(range(self.replicates))

    @property
    def submissions(self) -> Policy:
        """Return what all policies share: when jobs are submitted."""
        from sim.policy import Policy

        return Policy(dependencies=self.dependencies, users=self.users, load=self.load, squeeze=self.squeeze)


class Suite(Campaign):
    """A campaign on each of several traces under each of several loads, to be pooled.

    Shared settings are those of a :class:`Campaign`; what traces differ by comes from the catalogue or the traces.
    """

    traces: tuple[str, ...] = Field(min_length=1, description="Names of the catalogue, or files.")
    loads: tuple[Factor, ...] = Field(default=(1.0,), min_length=1, description="Each is a workload of every trace.")

    @model_validator(mode="after")
    def _check_shared(self) -> Suite:
        for name in Suite.model_fields:
            if name in self.model_fields_set & ({*TraceSettings.model_fields, "load", "machine"} - {"missing_request"}):
                raise InputError(f"{name} applies to one trace: a suite has traces and loads, and the catalogue each trace's needs")
        return self

    def campaigns(self, trace: str) -> list[Campaign]:
        """Return the campaigns on ``trace``, one a load."""
        shared = {name: getattr(self, name) for name in self.model_fields_set - {"traces", "loads"}}
        return [Campaign(**shared, trace=trace, load=load) for load in self.loads]


FORMULA = "r*n**(a+b*log(r/3600));a=1;b=0"
"""The default form: SAF at its start; ``b`` is how the weight of processors grows with the request. One of four forms
tried on KTH-SP2 and SDSC-SP2, including their held-out weeks."""


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


ALL = (
    *("requested", "last2", "hierarchy", "sp2", "sp3", "sp4", "knn", "okcm", "nag", "cv-triple"),
    *("lightgbm(every=7)", "quantile(every=7)", "quantile(order=accuracy,every=7)"),
)
"""Every predictor that does not know runtimes beforehand, the cheapest first. Those that are retrained learn weekly, as
registered models do, at a seventh of the cost of learning nightly."""
BASELINES = ("last2", "requested")
"""Default baselines; the first that was simulated is used."""
