"""A trace whose entry in the catalogue names a machine of clusters is cleaned for it and simulated on it, in runs and nights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import Trace
from pipelines.cli.options import load, load_machine
from pipelines.lake.tables import Lake
from pipelines.readers.canonical import write_canonical
from pipelines.readers.catalogue import remembered
from pipelines.readers.machine_file import read_machine
from pipelines.readers.read import read_known, remember
from pipelines.training.compare import kept_schedules
from pipelines.training.night import night
from pipelines.training.run_settings import RunSettings
from pipelines.training.simulate import simulate as simulate_run
from sim import simulate
from sim.settings import Campaign, TraceSettings
from tests.support.arriving import arriving
from tests.support.cutoffs import registered_in, work_in

pytestmark = pytest.mark.usefixtures("undrawn_pictures", "quick_methods")
SITE = """
name = "site"
[[cluster]]
name = "plain"
nodes = 1
procs = 16
memory = "32 GiB"
[[cluster]]
name = "gpu"
nodes = 1
procs = 16
memory = "64 GiB"
gpus = 2
"""


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CleanTrace:
    """Return a trace of jobs with memory and GPUs, one of which no node holds, in a catalogue that names its machine."""
    (tmp_path / "site.toml").write_text(SITE)
    (tmp_path / "queuecast.toml").write_text('[traces.arriving]\nplace = "arriving.parquet"\nmachine = "site.toml"\n')
    monkeypatch.setenv("QUEUECAST_CATALOGUE", str(tmp_path / "queuecast.toml"))
    pool, rng = arriving(jobs=900), np.random.default_rng(1)
    memory, gpus = rng.choice([2 << 20, 20 << 20], 900), np.where(rng.random(900) < 0.2, 1, 0)
    memory[5] = 1 << 30
    jobs = pool.jobs.drop(columns="overrun_s").assign(memory_kib=pd.array(memory, "Int64"), gpus=pd.array(gpus, "Int64"))
    write_canonical(Trace("arriving", jobs, pool.procs, pool.origin_unix_s, pool.timezone), tmp_path / "arriving.parquet")
    return read_known("arriving")


def test_a_trace_of_the_site_keeps_its_machine(clean: CleanTrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    assert clean.machine is not None
    remember("arriving")
    assert not remembered().exists(), "the site's catalogue states it"
    lake = Lake(tmp_path / "lake")
    lake.write_clean(clean)
    assert lake.read_clean("arriving").machine == clean.machine, "whatever the catalogue says now"


@pytest.mark.thorough
@pytest.mark.slow
def test_runs_and_nights_simulate_on_the_machine_of_the_catalogue(clean: CleanTrace, tmp_path: Path) -> None:
    machine = read_machine(tmp_path / "site.toml")
    assert clean.machine == load_machine(Campaign(trace="arriving")) == machine
    by_command = load(TraceSettings(trace="arriving"))
    assert clean.procs == by_command.procs == machine.procs == 32
    assert clean.rejected_jobs["rule"].tolist() == by_command.rejected_jobs["rule"].tolist() == ["fits-no-cluster"]

    def starts(on: object, jobs: pd.DataFrame) -> list[int]:
        return simulate(jobs, procs=32, machine=on).jobs["start_s"].tolist()  # type: ignore[arg-type]

    registered_in(tmp_path, clean)
    outcome = simulate_run(work_in(tmp_path, "arriving"), clean, RunSettings(schedulers=("EASY",), predictors=("requested",)))
    easy = next(each for each in outcome.schedules if (each.scheduler, each.predictor) == ("EASY", "requested"))
    assert easy.jobs["start_s"].tolist() == starts(machine, clean.jobs) != starts(None, clean.jobs)

    night(clean, "2026-01-01", tmp_path)
    kept, date = kept_schedules(Lake(tmp_path / "lake"), clean)
    easy = next(each for each in kept if (each.scheduler, each.predictor) == ("EASY", "requested"))
    assert easy.jobs["start_s"].tolist() == starts(machine, date.replayed(clean).jobs)
    assert easy.machine == "site"
