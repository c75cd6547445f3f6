"""Variability models from a system's tables: inputs, promotion, commands."""

from __future__ import annotations

import itertools
import json
import re
from types import SimpleNamespace

import dagster as dg
import mlflow
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.schema import fingerprint
from features.monitoring.labels import THREE_CLASSES
from models.registry.registration import set_aliases
from models.registry.variability_registration import registered_classifier
from models.registry.versions import aliases, all_versions
from models.variability import learners
from models.variability.evaluation import PROTOCOLS, ClassifierTraining, forward
from pipelines.assets import variability_model as variability_asset
from pipelines.assets.resources import LakeResource
from pipelines.assets.variability_checks import asked_back
from pipelines.cli.variability.evaluate import command as evaluate_command
from pipelines.cli.variability.train import command as train_command
from pipelines.dated.systems import retrain
from pipelines.sources.systems import remember_system, remembered
from pipelines.storage.lake import Lake
from pipelines.workflows import variability_table
from pipelines.workflows.variability_table import MODEL_TABLE, TrainingTable
from tests.support.contention import Runs, control_runs

FAST = {"extra-trees": {"trees": 15}, "lightgbm": {"trees": 15}}
NAMES = ("extra-trees", "lightgbm")


def learning(names: tuple[str, ...] = ("lightgbm",), seed: int = 0) -> ClassifierTraining:
    return ClassifierTraining(names, THREE_CLASSES, options=FAST, seed=seed)


def table_of(control: Runs, rows: slice = slice(None), system: str = "ours", every: int = 6) -> TrainingTable:
    runs = pd.DataFrame({"application": control.application, "start_s": control.start_s, "runtime_s": control.runtime_s})
    sets = {"own": control.features.iloc[:, ::every], "all": control.all_nodes.iloc[:, ::every]}
    return TrainingTable(
        system,
        runs.iloc[rows].reset_index(drop=True),
        {name: each.iloc[rows].reset_index(drop=True) for name, each in sets.items()},
        generated=True,
        left_out={"no counter sampled in the window": 3},
    )


def retrained(table, scope, store, learning, **tags):
    """Retrain, and let the aliases follow as a publication does."""
    result = retrain(table, scope, store, learning, **tags)
    set_aliases(store, result.name, result.champion, result.challenger)
    return result


@pytest.fixture(scope="module")
def control():
    return control_runs(900, seed=4)


def test_the_first_champion_is_the_best_of_all_and_the_simulator_can_load_it(opened, control):
    table = table_of(control, slice(0, 400), "first")
    outcome = retrained(table, "own", opened, learning(NAMES), tags={"dagster_run_id": "r9"})
    assert outcome.promoted
    assert outcome.registered["f1"].between(0.3, 1).all()
    champion = outcome.registered.set_index("alias").loc["champion"]
    assert champion["f1"] >= outcome.registered["f1"].max() - 0.001
    model = registered_classifier(opened, "variability-first").model
    assert model.classifier == champion["method"]
    assert model.classes == 3
    assert set(model.baselines.index) == set(control.application)
    tags = opened.client.get_model_version_by_alias("variability-first", "champion").tags
    runs = table.runs[["application", "start_s", "runtime_s"]]
    assert tags["data_fingerprint"] == fingerprint(pd.concat([runs, table.features["own"]], axis=1))
    assert tags["generated"] == "true"
    assert tags["dagster_run_id"] == "r9"
    with pytest.raises(InputError, match="reads own nodes, not all"):
        retrained(table, "all", opened, learning(NAMES))


@pytest.mark.thorough
def test_a_champion_that_learned_little_is_replaced_by_what_learned_more(opened, control):
    """A champion trained on a few runs whose counters said nothing is judged on runs it never saw, and loses."""
    blind = table_of(control, slice(0, 150), "second")
    shuffled = blind.features["own"].sample(frac=1, random_state=0).reset_index(drop=True)
    blind = TrainingTable("second", blind.runs, {"own": shuffled})
    weak = retrain(blind, "own", opened, learning())
    assert (weak.champion, weak.challenger, weak.model_version, weak.promoted) == ("", "", "1", False)
    assert re.match(
        r"No champion: F1 0\.\d+ is not surely above 0\.\d+, which warning of every run reaches \(difference [-+]0", weak.why
    )
    opened.client.set_registered_model_alias(weak.name, "simulated", weak.simulated)
    again = retrain(blind, "own", opened, learning())
    assert again.nothing_new
    assert (again.champion, again.versions, again.model_version, again.why) == ("", ("1",), "1", weak.why)
    set_aliases(opened, weak.name, "1")
    outcome = retrained(table_of(control, system="second"), "own", opened, learning(NAMES))
    assert outcome.promoted, outcome.why
    assert (outcome.champion, outcome.challenger) == ("2", "1")
    assert outcome.comparison.low > 0
    first, last = blind.runs["start_s"].max(), control.start_s.max()
    expected = (control.start_s > max(first, last - 90 * DAY_S)).sum()
    assert 0.9 * expected <= outcome.judged <= expected
    assert outcome.comparison.evidence.value >= outcome.comparison.evidence.needed == 40
    assert f"Promoted over version 1 (lightgbm): {outcome.comparison.evidence}; F1 0." in outcome.why
    assert opened.client.get_model_version_by_alias("variability-second", "champion").version == 2


def test_what_is_said_of_a_run_that_judges_stays_as_runs_are_added(control):
    few, many = (table_of(control, slice(0, count)) for count in (400, 480))
    since = int(control.start_s[150])
    answers = [
        forward(each.features["own"], each.runs, since, ClassifierTraining(("lightgbm",), options=FAST)) for each in (few, many)
    ]
    assert len(answers[1]) > len(answers[0]) > 200
    pd.testing.assert_frame_equal(answers[0], answers[1].iloc[: len(answers[0])])


def test_over_the_same_data_nothing_is_registered_what_serves_is_shown_and_one_chosen_by_hand_stays(opened, control):
    table = table_of(control, slice(0, 300), "third")
    first = retrained(table, "own", opened, learning())
    outcome = retrained(table, "own", opened, learning(), tags={"dagster_run_id": "another"})
    assert outcome.nothing_new
    assert not outcome.promoted
    assert "Nothing new" in outcome.why
    assert [each.version for each in all_versions(opened, "variability-third")] == [1]
    assert (outcome.champion, outcome.challenger, outcome.model_version) == ("1", "", "1")
    row = outcome.registered.iloc[0]
    assert (row["version"], row["alias"], row["f1"], row["judged_runs"]) == (1, "champion", first.registered["f1"].iloc[0], 300)
    assert asked_back(outcome, table.features["own"]) == (pytest.approx(0, abs=1e-9), 50)
    again = retrained(table, "own", opened, learning(seed=1))  # other settings are something new
    assert not again.nothing_new
    assert (again.champion, again.challenger) == ("1", "2")
    assert "only 0 runs" in again.why
    assert again.registered["alias"].tolist() == ["champion", "challenger"]
    assert again.registered["f1"].iloc[0] == row["f1"]
    description = opened.client.get_registered_model("variability-third").description
    assert "`predicted_to_vary`" in description
    assert "of the 300 s before the start" in description
    opened.client.delete_model_version_tag("variability-third", "1", "training_window_s")  # as of one chosen by hand
    stays = retrained(table, "own", opened, learning(seed=2))
    assert (stays.champion, stays.challenger, stays.promoted) == ("1", "3", False)
    assert "it was chosen by hand, and it stays" in stays.why


class Asked(Exception):
    """A retraining that is not done."""


def test_assets_and_the_command_train_as_the_system_states(monkeypatch, tmp_path):
    remember_system(tmp_path, "sixth", {"scope": "all"})
    with remembered(tmp_path).open("a") as file:
        file.write("elimination = true\nclassifiers = ['knn']\n")
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    asked = []

    def train(work, table, scope, learning):
        asked.append((scope, learning.elimination, learning.names))
        raise Asked

    monkeypatch.setattr("pipelines.dated.systems.train", train)
    monkeypatch.setattr(variability_asset, "train", train)
    monkeypatch.setattr(variability_asset, "unpack_table", lambda *_: None)
    monkeypatch.setattr(Lake, "read", lambda *_: (None, None))
    monkeypatch.setattr(LakeResource, "name", "sixth")
    context = SimpleNamespace(run=SimpleNamespace(run_id="r", tags={}))
    asset = variability_asset.variability_model.op.compute_fn.decorated_fn
    registry = SimpleNamespace(tracking=lambda: None)
    given = {"config": variability_asset.VariabilityConfig(), "system_lake": LakeResource(kind="variability"), "registry": registry}
    with pytest.raises(dg.Failure) as failed:
        list(asset(context, **given))
    assert isinstance(failed.value.__cause__, Asked)
    monkeypatch.setattr(variability_table, "training_table", lambda *_: SimpleNamespace(left_out={}))
    monkeypatch.setattr("pipelines.storage.registry.tracking", lambda: None)
    with pytest.raises(Asked):
        CliRunner().invoke(train_command, ["--system", "sixth"], catch_exceptions=False)
    assert asked == [("all", True, ("knn",))] * 2
    own = ["--system", "sixth", "--scope", "own", "--no-eliminate", "--classifier", "adaboost"]
    with pytest.raises(Asked):
        CliRunner().invoke(train_command, own, catch_exceptions=False)
    assert asked[2] == ("own", False, ("adaboost",))


@pytest.mark.thorough
def test_elimination_shortens_what_is_registered(opened, control):
    small = table_of(control, slice(0, 300), "fifth")
    few = TrainingTable("fifth", small.runs, {"own": control.features.iloc[:300, 66:108:3]})
    outcome = retrained(few, "own", opened, ClassifierTraining(("lightgbm",), THREE_CLASSES, True, {"lightgbm": {"trees": 5}}))
    assert len(outcome.model.columns) < 14
    version = opened.client.get_model_version("variability-fifth", "1")
    assert version.tags["columns"] == str(len(outcome.model.columns))
    wanted = mlflow.models.get_model_info("models:/variability-fifth/1").signature.inputs.required_input_names()
    assert wanted == list(outcome.model.columns)
    assert opened.client.get_run(version.run_id).data.params["elimination"] == "True"
    assert outcome.importance.index.tolist() == sorted(outcome.model.columns, key=lambda name: -outcome.importance[name])


def test_the_commands_say_what_was_found(opened, control, monkeypatch, tmp_path):
    monkeypatch.setitem(learners.OPTIONS["lightgbm"], "trees", 15)
    monkeypatch.setattr(variability_table, "training_table", lambda *_: table_of(control, slice(0, 300), "sixth"))
    monkeypatch.setattr("pipelines.storage.registry.tracking", lambda: opened)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    arguments = ["--system", "sixth", "--classifier", "lightgbm", "--classes", "2"]
    done = CliRunner().invoke(train_command, arguments, catch_exceptions=False)
    assert "variability-sixth, simulated: 300 runs" in done.output
    assert "champion    version 1: First champion by F1 over 300 runs" in done.output
    assert "3 of 303 runs left out: no counter sampled in the window" in done.output
    published = Lake(tmp_path / "lake").versions("variability-sixth").current()
    assert published.made_by == "queuecast variability train"
    assert published.models == {"champion": "1", "challenger": ""}
    assert aliases(opened, "variability-sixth") == {"champion": "1"}
    assert Lake(tmp_path / "lake").read(MODEL_TABLE, "sixth")[0]["alias"].tolist() == ["champion"]
    monkeypatch.setitem(learners.OPTIONS["ordinal"], "trees", 5)
    monkeypatch.setitem(learners.OPTIONS["lightgbm"], "trees", 5)
    monkeypatch.setattr(variability_table, "training_table", lambda *_: table_of(control, slice(0, 150), "sixth", every=30))
    arguments = ["--system", "sixth", "--classifier", "ordinal", "--applications"]
    done = CliRunner().invoke(evaluate_command, arguments, catch_exceptions=False)
    order = [
        "sixth: computing the features",
        "constant, blocks-of-time, counters none: F1 ",
        "ordinal, blocks-of-time, counters own: F1 ",
    ]
    assert sorted(order, key=done.output.index) == order, "a line for each as soon as it is judged, cheapest first"
    for protocol in PROTOCOLS:
        assert f"own less all nodes, {protocol}, ordinal: F1 " in done.output
    assert "sixth: 3 runs left out: no counter sampled in the window" in done.output
    assert re.search(
        r"calibration, blocks-of-time, own, ordinal: said [\d.]+%, came [\d.]+%; Brier score 0\.\d+, skill ", done.output
    )
    monkeypatch.setattr(variability_table, "training_table", lambda *_: table_of(control, slice(0, 60), "sixth", every=30))
    done = CliRunner().invoke(evaluate_command, [*arguments, "--classifier", "lightgbm", "--json"], catch_exceptions=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"system", "generated", "protocol", "classifier", "measure", "value", "low", "high"} <= rows[0].keys()
    cells = {(row["protocol"], row["features"], row["classifier"]) for row in rows}
    learned = itertools.product(PROTOCOLS, ("own", "all"), ("lightgbm", "ordinal"))
    assert cells == {*learned, *itertools.product(PROTOCOLS, ("none",), ("constant", "median"))}
    assert all(row["generated"] is True for row in rows)


@pytest.mark.thorough
def test_too_few_days_are_said_in_a_line_and_no_interval_is_printed(control, monkeypatch):
    monkeypatch.setitem(learners.OPTIONS["lightgbm"], "trees", 5)
    few = table_of(control, slice(0, 60), "seventh", every=30)
    monkeypatch.setattr(variability_table, "training_table", lambda *_: few)
    days = len(np.unique(few.runs["start_s"] // DAY_S))
    assert days < 5
    asked = ["--system", "seventh", "--classifier", "lightgbm"]
    done = CliRunner().invoke(evaluate_command, asked, catch_exceptions=False)
    assert f"seventh: no intervals: the runs are of {days} days, and 5 are needed" in done.output
    assert "own less all nodes, blocks-of-time, lightgbm: F1 " in done.output
    assert "nan" not in done.output


def test_a_table_is_made_of_what_was_ingested(tmp_path):
    """Two nodes that write steadily, at different rates; a run of each, one of both, and one from before there were counters."""
    from pipelines.ingest.ldms_ingest import ingest_counters
    from pipelines.storage.counters_store import CountersStore
    from pipelines.storage.lake import Lake
    from pipelines.storage.run_store import keep

    times = 1_600_000_000 + 60 * np.arange(30)
    lines = ["#Time,Time_usec,ProducerName,component_id,job_id,write_bytes,open"]
    lines += [f"{t}.000000,0,n{n},{n},0,{(n + 1) * 100 * (t - times[0])},{5 * (t - times[0])}" for t in times for n in range(2)]
    (tmp_path / "lustre2_client.csv").write_text("\n".join(lines) + "\n")
    lake = Lake(tmp_path / "lake")
    ingest_counters(CountersStore(lake.root, "small"), [tmp_path / "lustre2_client.csv"], sampler="lustre2_client")
    start = times[0] + 900
    runs = pd.DataFrame(
        {
            "run_id": ["a", "b", "c", "early", "where"],
            "application": ["AMG", "LBANN", "AMG", "AMG", "AMG"],
            "input": "",
            "nodes": [["n0"], ["n1"], ["n0", "n1"], ["n0"], None],
            "start_s": np.array([start, start, start, times[0] - 900, start], np.int64),
            "runtime_s": [10.0, 20.0, 11.0, 12.0, 13.0],
        }
    )
    keep(lake, "control_runs", "small", runs)
    assert variability_table.training_table(tmp_path, "small").features["own"].filter(like="probe").isna().all(axis=None)
    probes = pd.DataFrame({"run_id": ["a", "c", "c"], "node": ["n0", "n0", "n1"]})
    keep(lake, "probes", "small", probes.assign(send_s=[1.0, 2.0, 4.0], recv_s=0.5, allreduce_s=0.25))
    kinds = pd.DataFrame({"application": ["AMG", "LBANN"], "type": ["network", "io"]})
    keep(lake, "application_types", "small", kinds)
    table = variability_table.training_table(tmp_path, "small")
    assert table.runs["run_id"].tolist() == ["a", "b", "c"]
    assert table.left_out == {"nodes not known": 1, "no counter sampled in the window": 1}
    assert not table.generated
    column = "lustre2_client.write_bytes"
    assert table.features["own"][f"{column}.mean"].tolist() == pytest.approx([100, 200, 150])
    assert table.features["own"][f"{column}.max"].tolist() == pytest.approx([100, 200, 200])
    assert table.features["all"][f"{column}.mean"].tolist() == pytest.approx([150, 150, 150])
    assert table.features["own"]["probe.send_s.max"].tolist() == pytest.approx([1, np.nan, 4], nan_ok=True)
    assert table.features["own"]["type.io"].tolist() == [0, 1, 0]
    assert set(variability_table.training_table(tmp_path, "small", ("all",)).features) == {"all"}
    with pytest.raises(InputError, match="no control runs of other: ingest them first"):
        variability_table.training_table(tmp_path, "other")
