"""What ``queuecast run`` simulates: every predictor under the same corrections, and nothing under a correction that it cannot need."""

from __future__ import annotations

from contextlib import nullcontext

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from features.errors import InputError
from features.jobs.cleaning import clean
from models.runtime.protocol import TablePredictor
from pipelines.assets.traces import CampaignConfig
from pipelines.cli import cli, running
from pipelines.training.compare import pack_schedules, unpack_schedules
from pipelines.training.simulate import campaign
from sim import simulate
from sim.workloads.workload import Workload, generate


def test_every_learned_predictor_is_simulated_under_every_correction():
    trace = clean(generate(Workload(jobs=300, procs=64)))
    steps = []
    replays = campaign(
        trace,
        ("EASY", "EASY-SJBF"),
        ("requested", "last2", "knn", "clairvoyant"),
        ("tsafrir", "requested"),
        progress=lambda done, total: steps.append((done, total)),
    )
    one = [
        ("requested", "requested"),
        *((name, fix) for name in ("last2", "knn") for fix in ("tsafrir", "requested")),
        ("clairvoyant", "requested"),
    ]
    assert [(each.scheduler, each.predictor, each.correction) for each in replays] == [
        (name, *rest) for name in ("EASY", "EASY-SJBF") for rest in one
    ]
    assert sorted(steps)[-1] == (12, 12)
    again = simulate(trace.jobs, procs=trace.procs, scheduler="EASY-SJBF", predictor="last2", correction="tsafrir")
    twin = next(each for each in replays if (each.scheduler, each.predictor, each.correction) == ("EASY-SJBF", "last2", "tsafrir"))
    assert (again.jobs["start_s"] == twin.jobs["start_s"]).all()


def test_a_scheduler_that_weighs_takes_the_prior_for_requests_and_no_correction():
    trace = clean(generate(Workload(jobs=300, procs=64)))
    half = TablePredictor("registry:half", lambda jobs: jobs["requested_s"].to_numpy(np.float64) / 2)
    sources = ("requested", "last2", half, "clairvoyant")
    schedules = campaign(trace, ("EASY", "Harm"), sources, ("tsafrir", "doubling"))
    assert [(each.predictor, each.correction) for each in schedules if each.scheduler == "Harm"] == [
        (name, "requested") for name in ("prior", "last2", "registry:half", "clairvoyant")
    ]
    assert len([each for each in schedules if each.scheduler == "EASY"]) == 2 + 2 * 2


def test_by_default_all_learned_predictors_share_one_correction():
    config = CampaignConfig()
    assert len(config.corrections) == 1
    assert {"requested", "clairvoyant"} < set(config.predictors)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--predictor", "lats2"], "unknown predictor 'lats2'"),
        (["--correction", "tsafir"], "unknown correction 'tsafir'"),
        (["--scheduler", "ESAY"], "unknown scheduler 'ESAY'"),
    ],
)
def test_a_wrong_name_is_said_before_anything_runs(arguments, words, tmp_path, monkeypatch):
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    done = CliRunner().invoke(cli, ["run", "--trace", "generated", *arguments])
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("asked", "jobs", "other"),
    [
        ([], ["full_run kth-sp2"], ["--system simulated --seed 0"]),
        (["--trace", "generated"], ["full_run generated"], []),
        (["--system", "simulated"], ["full_run simulated", "variability simulated"], []),
    ],
)
def test_a_run_is_of_what_is_named_and_by_default_of_a_real_log_and_a_simulated_cluster(asked, jobs, other, tmp_path, monkeypatch):
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    runs, beside = [], []
    monkeypatch.setattr(
        running, "_materialise", lambda job, name, ops, night="": runs.append(f"{job} {name} {night}".strip()) or True
    )
    monkeypatch.setattr(running, "_also", lambda *arguments: beside.append(" ".join(arguments)) or nullcontext())
    for name in ("print_comparison", "serves", "print_variability", "look_at"):
        monkeypatch.setattr(running, name, lambda *_: "")
    monkeypatch.setattr("pipelines.cli.running.tracking", lambda *_: None)
    monkeypatch.setattr("pipelines.cli.running.check_registry", lambda *_: None)
    done = CliRunner().invoke(cli, ["run", *asked], catch_exceptions=False)
    assert done.exit_code == 0
    assert (runs, beside) == (jobs, other)
    assert ("Lars Malinowsky" in done.stdout) == bool(other), "the log is acknowledged"


def test_what_runs_beside_is_printed_afterwards_and_its_failure_is_the_command_s(monkeypatch, capsys):
    monkeypatch.setattr(running.sys, "executable", "/bin/echo")
    with running._also("--system", "simulated"):
        print("the trace")
    assert capsys.readouterr().out.splitlines() == ["the trace", "-m pipelines run --system simulated"]
    monkeypatch.setattr(running.sys, "executable", "/bin/false")
    with pytest.raises(SystemExit) as ended, running._also("--system", "simulated"):
        pass
    assert ended.value.code == 1


def test_replicates_are_shaken_replays_and_a_single_one_is_as_recorded():
    trace = clean(generate(Workload(jobs=300, procs=64)))
    schedules = campaign(trace, ("EASY", "Harm"), ("requested",), replicates=2)
    assert [(each.scheduler, each.seed, each.shake_s) for each in schedules] == [
        (name, seed, 60) for name in ("EASY", "Harm") for seed in (0, 1)
    ]
    table, settings = pack_schedules(schedules)
    for kept, schedule in zip(unpack_schedules(trace, table, settings), schedules, strict=True):
        pd.testing.assert_frame_equal(kept.jobs, schedule.jobs)
    (alone, _) = campaign(trace, ("EASY", "Harm"), ("requested",))
    assert (alone.jobs["submit_s"] == trace.jobs["submit_s"]).all()


@pytest.mark.parametrize(
    ("arguments", "option"), [(["parity", "x"], "--machine"), (["whatif", "x"], "--machine"), (["when", "x"], "--queue")]
)
def test_an_option_that_is_needed_is_named_as_it_is_typed(arguments, option):
    with pytest.raises(click.MissingParameter) as missing:
        cli(arguments, standalone_mode=False)
    assert missing.value.format_message() == f"Missing option '{option}'."
