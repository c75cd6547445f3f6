"""The face for notebooks: every example runs, every wrong name is told what was meant, and nothing is imported before it is needed."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import pandas as pd
import pytest

import queuecast
from features import CleanTrace, InputError
from sim import View
from sim.own.decide import Job


@pytest.mark.slow
def test_every_example_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    doctests = {test.name: test for test in doctest.DocTestFinder().find(queuecast)}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert [name for name in set(dir(queuecast)) - set(queuecast._ELSEWHERE) if not doctests[f"queuecast.{name}"].examples] == []
    for test in doctests.values():
        test.globs["qc"] = queuecast
        runner.run(test)
    assert runner.summarize().failed == 0


def test_a_wrong_name_is_told_what_was_meant() -> None:
    with pytest.raises(AttributeError, match="queuecast has no 'simulat'; did you mean simulate\\?"):
        queuecast.simulat  # noqa: B018
    with pytest.raises(AttributeError, match="queuecast has no 'xyz'; known: CleanTrace, "):
        queuecast.xyz  # noqa: B018
    assert queuecast.InputError is InputError
    assert len(dir(queuecast)) == len([getattr(queuecast, name) for name in dir(queuecast)]) == 22


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: queuecast.simulate("kth-sp2", "EASY-SBJF"), "unknown order 'SBJF' .*; did you mean SJF"),
        (lambda: queuecast.simulate("kth-sp2", predictor="last3"), "unknown predictor 'last3'; did you mean last2"),
        (lambda: queuecast.simulate("kth-sp2", "SCORE(r*m)-EASY"), "'m'"),
        (lambda: queuecast.read("kth"), "did you mean kth-sp2"),
        (lambda: queuecast.read("kth-sp2", timezones="UTC"), "unknown setting 'timezones'; did you mean timezone"),
        (lambda: queuecast.simulate(5), "5: no such file and no trace of the catalogue"),
        (lambda: queuecast.campaign("kth-sp2", window="weeks"), "window"),
        (lambda: queuecast.simulate(queuecast.read("kth-sp2"), procs=50), "was read for 100 processors, not 50"),
        (lambda: queuecast.simulate("kth-sp2", print), "a scheduler is a name, not .*: give a policy to decide"),  # type: ignore[arg-type]
        (lambda: queuecast.campaign("kth-sp2", ["EASY", 5]), "a int is not a policy"),  # type: ignore[list-item]
        (lambda: queuecast.compare([]), "no schedule of the baseline EASY / requested to compare with; there are: none"),
        (lambda: queuecast.whatif("kth-sp2", machine="site", replicate=3), "replicate is unknown; did you mean replicates\\?"),
        (lambda: queuecast.simulate("kth-sp2", schedular="EASY"), "unknown setting 'schedular'; did you mean scheduler\\?"),
        (lambda: queuecast.simulate("kth-sp2", seed="x"), "seed must be a number, not 'x'"),
        (lambda: queuecast.simulate("kth-sp2", load=True), "load must be a number, not True"),
        (lambda: queuecast.compare("EASY"), "a str is not a schedule: give one that simulate, decide or recorded returned"),
        (lambda: queuecast.evaluate(pd.DataFrame()), "a DataFrame is not a schedule"),
        (lambda: queuecast.evaluate(queuecast.recorded("kth-sp2"), -1), "tau_s must be a number of seconds above 0, not -1"),
        (lambda: queuecast.compare([queuecast.recorded("kth-sp2")], confidence=95), "between 0 and 1, such as 0.95, not 95"),
        (lambda: queuecast.plot("EASY"), "a str is not a schedule"),  # type: ignore[arg-type]
        (lambda: queuecast.plot(pd.DataFrame()), "a table that compare, campaign or whatif did not return"),
        (lambda: queuecast.campaign([]), "at least one trace and one load"),
        (lambda: queuecast.campaign("kth-sp2", load="high"), "load must be a number, not 'high'"),  # type: ignore[arg-type]
        (lambda: queuecast.whatif("log.txt"), "machine is missing"),  # type: ignore[arg-type]
        (lambda: queuecast.write("EASY", "easy.csv"), "a str is not a schedule"),  # type: ignore[arg-type]
        (lambda: queuecast.check_predictor(5), "a int makes no predictors"),
    ],
)
def test_what_is_unknown_is_refused_with_what_was_meant(ask: Callable[[], object], error: str) -> None:
    with pytest.raises(InputError, match=error):
        ask()


def test_tables_of_jobs_and_few_metrics_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"submit_s": [0, 1, 2], "runtime_s": [9, 90, 9], "procs": [1, 2, 3], "requested_s": 20})
    read = queuecast.read(frame, procs=2)
    assert "3 jobs read, 2 kept" in capsys.readouterr().err
    assert queuecast.read(read.jobs, procs=2).jobs["overrun_s"].tolist() == read.jobs["overrun_s"].tolist() == [0, 70]
    schedule = queuecast.simulate(read)
    few = queuecast.compare([schedule], metrics=["mean_wait_s"])
    assert repr(few).splitlines()[0].strip() == "jobs: 2 jobs on 2 processors"
    assert few.verdict in repr(few)
    queuecast.write(few, tmp_path / "few.md")
    queuecast.write(few, tmp_path / "few.csv")
    assert "| combination | mean wait, s |" in (tmp_path / "few.md").read_text()
    assert pd.read_csv(tmp_path / "few.csv")["metric"].tolist() == ["mean_wait_s"]
    assert few.verdict == "No verdict without mean_bounded_slowdown, awf_s, p2sf_s, longest_wait_s."
    for ask, error in (
        (lambda: queuecast.plot(few), "the comparison lacks mean_bounded_slowdown"),
        (lambda: queuecast.compare([schedule, schedule]), "give one another name"),
    ):
        with pytest.raises(InputError, match=error):
            ask()


def test_what_is_odd_but_clear_is_taken_or_told() -> None:
    jobs = pd.DataFrame({"submit_s": [0, 1, 2], "runtime_s": [90, 9, 9], "procs": [2, 2, 1], "requested_s": 90})
    schedule = queuecast.simulate(jobs, procs=2)
    with pytest.raises(InputError, match="baseline 'EASY': must be a scheduler and a predictor"):
        queuecast.compare(schedule, baseline="EASY")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown setting 'metric'; did you mean metrics"):
        queuecast.compare(schedule, metric="mean_wait_s")
    assert queuecast.compare(schedule, metrics="mean_wait_s")["value"].tolist() == [(0 + 89 + 97) / 3]
    assert len(queuecast.campaign(jobs, "EASY", "requested", procs=2)) == 1
    assert queuecast.evaluate(schedule)["max_wait_s"] == 97


def test_the_figure_of_a_comparison_shows_whole_intervals_and_the_mean_wait() -> None:
    metrics = ["mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s", "longest_wait_s"]
    names = {"predictor": "requested", "correction": "requested"}
    base = [{"scheduler": "EASY", **names, "metric": each, "relative": 0.0, "low": 0.0, "high": 0.0} for each in metrics]
    wide = [{"scheduler": "Harm", **names, "metric": each, "relative": -0.1, "low": -0.9, "high": 8.0} for each in metrics]
    panels = queuecast.plot(pd.DataFrame(base + wide)).axes
    assert [panel.get_title("left") for panel in panels] == ["slowdown", "mean wait", "AWF", "P²SF", "longest wait"]
    for panel in panels:
        first, last = panel.get_xlim()
        assert first < 0.1
        assert last > 9.0


def test_a_policy_of_yours_meets_the_same_windows_and_shaken_submissions_as_the_others() -> None:
    def in_order(view: View) -> list[Job]:  # as Strict does
        free = view.free - np.cumsum([job.procs for job in view.queue])
        return [job for job, left in zip(view.queue, np.minimum.accumulate(free), strict=True) if left >= 0]

    table = queuecast.campaign(crowd(1), ["EASY", "Strict", in_order], windows="weeks", replicates=2, shake_s=60)
    apart = table.drop(columns="simulate_s").set_index("scheduler")
    assert len(apart.loc["in_order"]) == len(apart.loc["EASY"]) == 2 * table["window"].nunique()
    pd.testing.assert_frame_equal(apart.loc["in_order"].reset_index(drop=True), apart.loc["Strict"].reset_index(drop=True))
    assert table["mean_wait_s"].max() > 0
    waits = table.summary.query("metric == 'mean_wait_s'").set_index("scheduler")
    assert waits.loc["in_order", ["low", "high"]].tolist() == waits.loc["Strict", ["low", "high"]].tolist()
    assert not waits.loc["in_order", ["low", "high"]].isna().any()


class LastFirst:
    """Start the jobs that fit, the last submitted first; count the simulations that it has seen."""

    def __init__(self) -> None:
        self.now_s, self.begun = np.inf, 0

    def __call__(self, view: View) -> list[Job]:
        self.begun += view.now_s < self.now_s
        self.now_s = view.now_s
        return [job for job in reversed(view.queue) if job.procs <= view.free][: self.begun]


@pytest.mark.slow
def test_a_policy_with_a_memory_knows_nothing_of_other_simulations() -> None:
    trace, policy = crowd(2), LastFirst()
    waits = [
        queuecast.campaign(trace, [given], replicates=4, shake_s=60)["mean_wait_s"].tolist()
        for given in (policy, LastFirst, policy.__call__)
    ]
    alone = [queuecast.decide(trace, LastFirst(), seed=seed, shake_s=60) for seed in range(4)]
    assert waits == [[queuecast.evaluate(each)["mean_wait_s"] for each in alone]] * 3
    assert policy.begun == 0
    with pytest.raises(InputError, match="cannot be copied for each simulation"):
        queuecast.campaign(trace, [partial(lambda _, view: view.queue, Lock())])


def test_a_window_of_a_trace_holds_the_jobs_submitted_in_it() -> None:
    jobs = pd.DataFrame({"submit_s": [0, 10, 20, 30], "runtime_s": 9, "procs": 1, "requested_s": 20})
    window = queuecast.read(queuecast.read(jobs, procs=2), from_s=10, to_s=30)
    assert window.jobs["submit_s"].tolist() == [10, 20]
    assert queuecast.simulate(window).jobs["start_s"].tolist() == [10, 20]
    with pytest.raises(InputError, match="jobs: no job is submitted between seconds 31 and None of the trace"):
        queuecast.read(jobs, procs=2, from_s=31)


def crowd(seed: int) -> CleanTrace:
    """Return 400 jobs of nine weeks that crowd ten processors, named by their seed."""
    random = np.random.default_rng(seed)
    columns = {"runtime_s": random.integers(60, 9_000, 400), "procs": random.integers(1, 9, 400)}
    submit = np.sort(random.integers(0, 9 * 604_800, 400))
    read = queuecast.read(pd.DataFrame({"submit_s": submit, **columns, "requested_s": 9_000}), procs=10)
    return replace(read, name=f"crowd {seed}")


def test_a_trace_is_simulated_on_the_machine_that_it_was_read_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a catalogue in another folder says of a trace of that name, and also after a slice or another name."""
    jobs = "".join(f"{number} 0 -1 100 10 -1 -1 10 100 -1 1 1 1 1 1 -1 -1 -1\n" for number in (1, 2, 3))
    (tmp_path / "mine.swf").write_text(jobs)
    nodes = '[[cluster]]\nname = "{}"\nnodes = 1\nprocs = 16\n'
    (tmp_path / "two.toml").write_text('name = "two"\n' + nodes.format("a") + nodes.format("b"))
    traces, waits = {}, {"pool": 0.0, "two": 100 / 3}
    for folder, line in (("pool", "procs = 32"), ("two", f'machine = "{tmp_path / "two.toml"}"')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "queuecast.toml").write_text(f'[traces.mine]\nplace = "{tmp_path / "mine.swf"}"\n{line}\n')
        monkeypatch.chdir(tmp_path / folder)
        traces[folder] = queuecast.read("mine")
    for read, trace in traces.items():
        for folder in waits:
            monkeypatch.chdir(tmp_path / folder)
            for same in (trace, queuecast.read(trace, to_s=1), replace(trace, name="renamed")):
                assert queuecast.evaluate(queuecast.simulate(same))["mean_wait_s"] == pytest.approx(waits[read])
    pool = queuecast.read(traces["two"], machine=tmp_path / "two.toml")
    assert pool.machine == traces["two"].machine


def test_nothing_is_imported_before_options_are_read() -> None:
    """Help and a wrong option behind any command import no library that takes a tenth of a second."""
    code = """
import sys
import click, queuecast, pipelines.cli
from pipelines.cli import LazyGroup

def refused(group, before):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if isinstance(command, LazyGroup):
            refused(command, [*before, name])
            continue
        try:
            pipelines.cli.cli([*before, name, "--no-such-option"], standalone_mode=False)
        except click.NoSuchOption:
            print(*before, name)
    print("imported", *{'numpy', 'pandas', 'numba', 'dagster', 'mlflow', 'matplotlib', 'rich'} & set(sys.modules))

pipelines.cli.cli(["--help"], standalone_mode=False)
print("refused:")
refused(pipelines.cli.cli, [])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(queuecast.__file__).parent)
    printed = run.stdout.partition("refused:\n")[2].splitlines()
    assert {"campaign", "run", "variability ask"} <= set(printed), run.stderr
    assert {line for line in printed if line.startswith("imported")} == {"imported"}


@pytest.mark.parametrize("name", ["sim.py", "features/__init__.py", "models/__init__.py"])
@pytest.mark.parametrize("arguments", [["-c", "import queuecast"], ["-m", "pipelines", "traces"]], ids=["import", "command"])
def test_a_module_of_the_users_that_hides_ours_is_named_in_a_line(arguments: list[str], name: str, tmp_path: Path) -> None:
    hiding = tmp_path / name
    hiding.parent.mkdir(exist_ok=True)
    hiding.write_text("")
    environment = {**os.environ, "PYTHONPATH": str(Path(queuecast.__file__).parent), "PYTHONSAFEPATH": ""}
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert f"{hiding} hides the package {name.split('/')[0].removesuffix('.py')} of Queuecast" in done.stderr.splitlines()[-1]
    assert done.returncode == (2 if "-m" in arguments else 1)
