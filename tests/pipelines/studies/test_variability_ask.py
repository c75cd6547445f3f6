"""Asking a champion about a start: the features a training run would have, from what was ingested, and an answer that says what it rests on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from features.errors import InputError
from features.monitoring.labels import DELAYS, baselines, labels, z_scores
from features.monitoring.samplers import DELAY_FEATURES, MORE_FEATURES
from models.registry.variability_registration import Registered, variability_content
from models.variability.classifiers import ORDINAL_CUTOFF
from models.variability.evaluation import ClassifierTraining
from models.variability.model import fit, times_of
from pipelines.cli.variability import ask as command
from pipelines.lake.counters import CountersStore
from pipelines.lake.run_store import keep
from pipelines.lake.tables import Lake
from pipelines.readers.control_runs import read_topology
from pipelines.readers.ldms.ingest import ingest_counters
from pipelines.readers.systems import remember_system
from pipelines.studies import variability_ask
from pipelines.studies.monitored import training_table
from pipelines.studies.variability_ask import ask

FIRST_S, RUNS = 1_600_000_000, 40


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes whose writing grows ever faster, sampled every minute, and runs on either of them."""
    place = tmp_path_factory.mktemp("home")
    times = FIRST_S + 60 * np.arange(200)
    lines = ["#Time,Time_usec,ProducerName,component_id,job_id,write_bytes,open"]
    lines += [f"{t}.0,0,n{n},{n},0,{(n + 1) * (t - FIRST_S) ** 2},{5 * (t - FIRST_S)}" for t in times for n in range(2)]
    (place / "lustre2_client.csv").write_text("\n".join(lines) + "\n")
    lake = Lake(place / "lake")
    ingest_counters(CountersStore(lake.root, "small"), [place / "lustre2_client.csv"], sampler="lustre2_client")
    start = FIRST_S + 900 + 240 * np.arange(RUNS)
    nodes = [["n0"] if row % 2 else ["n0", "n1"] for row in range(RUNS)]
    runs = {"run_id": [f"r{row}" for row in range(RUNS)], "application": "AMG", "input": "", "nodes": nodes, "start_s": start}
    keep(lake, "control_runs", "small", pd.DataFrame(runs).assign(runtime_s=100.0 + np.arange(RUNS)))
    keep(lake, "application_types", "small", pd.DataFrame({"application": ["AMG", "LULESH"], "type": ["network", "compute"]}))
    remember_system(place, "small", {"lag_s": 70.0})
    return place


@pytest.fixture(scope="module")
def model(home: Path):
    table = training_table(home, "small", ("own",))
    label = (np.arange(RUNS) >= RUNS // 2).astype(np.int64)
    usual = pd.DataFrame({"mean_s": [100.0], "sigma_s": [20.0], "runs": [RUNS]}, index=pd.Index(["AMG"], name="application"))
    return fit("decision-forest", table.features["own"], label, seed=0, options={"trees": 10}, classes=3, baselines=usual)


@pytest.fixture
def registered(model, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    version = Registered("variability-small", "7", model, "own", (1.2, 1.5))
    monkeypatch.setattr(variability_ask, "registered_classifier", lambda *_: version)
    monkeypatch.setattr(variability_ask, "check_registry", lambda *_: None)
    monkeypatch.setattr(variability_ask, "version_of", lambda *_: "8")
    return SimpleNamespace(uri="here")


def test_a_start_is_asked_about_with_the_features_of_a_run_that_began_there(home: Path, model, registered) -> None:
    table = training_table(home, "small", ("own",))
    expected = model.predict_proba(table.features["own"])
    for row in (0, 1, 38, 39):
        run = table.runs.iloc[row]
        answer = ask(home, registered, "small", run["nodes"], "AMG", float(run["start_s"]))
        assert answer.probabilities == tuple(expected[row])
        assert answer.varies == (expected[row, -1] >= model.cutoff)
    assert (answer.model, answer.version, answer.varies_above_s) == ("variability-small", "7", 130.0)
    assert len(answer.missing) == 9
    assert all(name.startswith("probe.") for name in answer.missing)


@pytest.fixture(scope="module")
def tree(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same nodes under two leaf switches, and two long runs beside on nodes without counters."""
    place = shutil.copytree(home, tmp_path_factory.mktemp("tree") / "home")
    lake = Lake(place / "lake")
    (place / "topology.conf").write_text("SwitchName=a Nodes=n[0,2]\nSwitchName=b Nodes=n[1,3-4]\nSwitchName=core Switches=a,b\n")
    keep(lake, "topology", "small", read_topology(place / "topology.conf"))
    rates = {"read_gb_s": [1.0, 0.5], "write_gb_s": [0.5, 0.5], "sent_gb_s": [2.0, 3.0]}
    keep(lake, "application_types", "small", pd.DataFrame({"application": ["AMG", "LBANN"], "type": ["network", "io"], **rates}))
    long = {"run_id": ["l0", "l1"], "application": "LBANN", "input": "", "nodes": [["n2"], ["n3", "n4"]], "start_s": FIRST_S}
    keep(lake, "control_runs", "small", pd.DataFrame(long).assign(runtime_s=[5000.0, 9000.0]))
    return place


def test_a_champion_of_delays_answers_by_what_runs_beside_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = training_table(tree, "small", ("own",))
    features = table.features["own"]
    assert set(MORE_FEATURES) <= set(features)
    learning = ClassifierTraining(("ordinal",), DELAYS, options={"ordinal": {"trees": 5, "min_rows_in_leaf": 2}})
    usual = baselines(table.runs["application"], table.runs["runtime_s"])
    z = z_scores(table.runs["application"], table.runs["runtime_s"], usual)
    model = learning.fit("ordinal", features, labels(z, DELAYS), times_of(table.runs), usual)
    assert model.columns == tuple(name for name in DELAY_FEATURES if name in features)
    assert (model.cutoff, model.variation) == (ORDINAL_CUTOFF, 3)
    content = variability_content(model, "own", DELAYS, features)
    assert "beside.io" in content.signature.inputs.input_names()
    version = Registered("variability-small", "8", model, "own", DELAYS)
    monkeypatch.setattr(variability_ask, "registered_classifier", lambda *_: version)
    monkeypatch.setattr(variability_ask, "check_registry", lambda *_: None)
    monkeypatch.setattr(variability_ask, "version_of", lambda *_: "8")
    for name in ("r1", "r20"):  # while both long runs run, and while one does
        row = table.runs["run_id"].tolist().index(name)
        run = table.runs.iloc[row]
        answer = ask(tree, SimpleNamespace(uri="here"), "small", run["nodes"], "AMG", float(run["start_s"]))
        assert answer.probabilities == tuple(model.predict_proba(features)[row])
    assert answer.cutoff == ORDINAL_CUTOFF
    assert answer.variation == pytest.approx(sum(answer.probabilities[3:]))
    assert answer.varies == (answer.variation >= ORDINAL_CUTOFF)
    with pytest.raises(InputError, match="node 'n9' is under no leaf switch of the ingested topology"):
        ask(tree, SimpleNamespace(uri="here"), "small", ["n9"], "AMG", FIRST_S + 9000)


def test_what_cannot_be_answered_is_said_in_a_line(home: Path, registered) -> None:
    with pytest.raises(InputError, match=r"no counter of these nodes was sampled in the 300 s before 2020-09-14"):
        ask(home, registered, "small", ["n0"], "AMG", FIRST_S + 86_400)
    with pytest.raises(InputError, match="no counter of these nodes was sampled"):
        ask(home, registered, "small", ["n5", "n6"], "AMG", FIRST_S + 3000)
    with pytest.raises(
        InputError, match="unknown application 'Nope': small has neither control runs nor a type of it; known: AMG, LULESH"
    ):
        ask(home, registered, "small", ["n0"], "Nope", FIRST_S + 3000)


def test_an_application_without_runs_has_no_usual_runtime(home: Path, registered) -> None:
    answer = ask(home, registered, "small", ["n0", "n7"], "LULESH", FIRST_S + 3000)
    assert np.isnan(answer.varies_above_s)


def test_the_command_prints_the_answer(home: Path, registered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(home))
    monkeypatch.setattr("pipelines.lake.registry.tracking", lambda: registered)
    asked = ["--system", "small", "--nodes", "n[0-1]", "--application", "AMG", "--at", str(FIRST_S + 11_000)]
    printed = CliRunner().invoke(command, asked, catch_exceptions=False).stdout
    assert printed.startswith("AMG on 2 nodes at 2020-09-13T15:30:00+00:00: predicted: ")
    assert "varies above  130 s" in printed
    assert "variability-small version 7, decision-forest, counters of own nodes" in printed
    row = json.loads(CliRunner().invoke(command, [*asked, "--json"], catch_exceptions=False).stdout)
    assert row["nodes"] == ["n0", "n1"]
    assert sum(row["probabilities"]) == pytest.approx(1)
    for wrong in ("n[0-", " "):
        with pytest.raises(InputError, match="--nodes"):
            CliRunner().invoke(command, [*asked, "--nodes", wrong], catch_exceptions=False)
    assert CliRunner().invoke(command, [*asked, "--at", "noon"]).exit_code == 2
