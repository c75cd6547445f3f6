"""Variability models from a system's tables: inputs, promotion, commands."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.schema import fingerprint
from features.monitoring.labels import THREE_CLASSES
from models.registry.tracking import all_versions
from models.registry.variability_registration import VARIABILITY, registered_classifier
from models.variability.evaluation import ClassifierTraining, forward
from pipelines.lake.publishing import aliases_of
from pipelines.lake.tables import Lake
from pipelines.studies import monitored
from pipelines.studies.monitored import TrainingTable
from pipelines.training.promote import Promotion
from pipelines.training.systems import retrain
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


def versions_of(outcome: Promotion, store) -> pd.DataFrame:
    return outcome.table(store, VARIABILITY)


def retrained(table, scope, store, learning, **tags):
    """Retrain, and let the aliases follow as a publication does."""
    result = retrain(table, scope, store, learning, **tags)
    aliases_of(store, result.name)(result.serves)
    return result


@pytest.fixture(scope="module")
def control():
    return control_runs(900, seed=4)


def test_the_first_champion_is_the_best_of_all_and_the_simulator_can_load_it(opened, control):
    table = table_of(control, slice(0, 400), "first")
    outcome = retrained(table, "own", opened, learning(NAMES), tags={"dagster_run_id": "r9"})
    assert outcome.promoted
    assert versions_of(outcome, opened)["f1"].between(0.3, 1).all()
    champion = versions_of(outcome, opened).set_index("alias").loc["champion"]
    assert champion["f1"] >= versions_of(outcome, opened)["f1"].max() - 0.001
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


def test_what_is_said_of_a_run_that_judges_stays_as_runs_are_added(control):
    few, many = (table_of(control, slice(0, count)) for count in (400, 480))
    since = int(control.start_s[150])
    answers = [
        forward(each.features["own"], each.runs, since, ClassifierTraining(("lightgbm",), options=FAST)) for each in (few, many)
    ]
    assert len(answers[1]) > len(answers[0]) > 200
    pd.testing.assert_frame_equal(answers[0], answers[1].iloc[: len(answers[0])])


@pytest.mark.thorough
def test_over_the_same_data_nothing_is_registered_and_what_serves_is_shown(opened, control):
    table = table_of(control, slice(0, 300), "third")
    first = retrained(table, "own", opened, learning())
    outcome = retrained(table, "own", opened, learning(), tags={"dagster_run_id": "another"})
    assert outcome.nothing_new
    assert not outcome.promoted
    assert "Nothing new" in outcome.why
    assert [each.version for each in all_versions(opened, "variability-third")] == [1]
    assert (outcome.champion, outcome.challenger) == ("1", "")
    row = versions_of(outcome, opened).iloc[0]
    assert (row["version"], row["alias"], row["f1"], row["judged_runs"]) == (
        1,
        "champion",
        versions_of(first, opened)["f1"].iloc[0],
        300,
    )
    again = retrained(table, "own", opened, learning(seed=1))  # other settings are something new
    assert not again.nothing_new
    assert (again.champion, again.challenger) == ("1", "2")
    assert "only 0 runs" in again.why
    assert versions_of(again, opened)["alias"].tolist() == ["champion", "challenger"]
    assert versions_of(again, opened)["f1"].iloc[0] == row["f1"]
    description = opened.client.get_registered_model("variability-third").description
    assert "`predicted_to_vary`" in description
    assert "of the 300 s before the start" in description


def test_a_table_is_made_of_what_was_ingested(tmp_path):
    """Two nodes that write steadily, at different rates; a run of each, one of both, and one from before there were counters."""
    from pipelines.lake.counters import CountersStore
    from pipelines.lake.run_store import keep
    from pipelines.readers.ldms.ingest import ingest_counters

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
    assert monitored.training_table(tmp_path, "small").features["own"].filter(like="probe").isna().all(axis=None)
    probes = pd.DataFrame({"run_id": ["a", "c", "c"], "node": ["n0", "n0", "n1"]})
    keep(lake, "probes", "small", probes.assign(send_s=[1.0, 2.0, 4.0], recv_s=0.5, allreduce_s=0.25))
    kinds = pd.DataFrame({"application": ["AMG", "LBANN"], "type": ["network", "io"]})
    keep(lake, "application_types", "small", kinds)
    table = monitored.training_table(tmp_path, "small")
    assert table.runs["run_id"].tolist() == ["a", "b", "c"]
    assert table.left_out == {"nodes not known": 1, "no counter sampled in the window": 1}
    assert not table.generated
    column = "lustre2_client.write_bytes"
    assert table.features["own"][f"{column}.mean"].tolist() == pytest.approx([100, 200, 150])
    assert table.features["own"][f"{column}.max"].tolist() == pytest.approx([100, 200, 200])
    assert table.features["all"][f"{column}.mean"].tolist() == pytest.approx([150, 150, 150])
    assert table.features["own"]["probe.send_s.max"].tolist() == pytest.approx([1, np.nan, 4], nan_ok=True)
    assert table.features["own"]["type.io"].tolist() == [0, 1, 0]
    assert set(monitored.training_table(tmp_path, "small", ("all",)).features) == {"all"}
    with pytest.raises(InputError, match="no control runs of other: ingest them first"):
        monitored.training_table(tmp_path, "other")
