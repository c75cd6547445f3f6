"""The self-contained model: equal to the in-process path, and strict about input."""

from __future__ import annotations

import json
import shutil

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException

from features.clock import local_clock_s
from models.packed.methods import Last2, LightGBM, Quantile, Requested
from models.packed.runtime_predictor import RuntimePredictor
from models.packed.settings import FORMAT
from models.registry.packing import assemble, content_hash, modules_in
from models.registry.runtime_registration import Snapshot, runtime_content, signature
from tests.support.learning import ORIGIN_S, ZONE, inputs_of


def pack(directory, learned, method="lightgbm", table=None):
    directory.mkdir()
    methods = LightGBM(learned.trees), Last2(), Requested(), Quantile(learned.forest)
    [chosen] = [each for each in methods if each.name == method]
    states = learned.states if table is None else learned.states._replace(users=table)
    return assemble(directory, "runtime", runtime_content(chosen, Snapshot(states, learned.at, ORIGIN_S, ZONE)).write)


def submission(learned, **changes):
    local = local_clock_s(np.array([learned.at]), ORIGIN_S, ZONE).astype("datetime64[s]")
    asked = {name: [learned.jobs[name].iloc[-1]] for name in ("user", "procs", "requested_s")}
    return pd.DataFrame({**asked, "submit_time": local, **changes})


def test_what_is_packed_says_what_was_learned(tmp_path, learned):
    row = inputs_of(learned.jobs, learned.start).tail(1)
    assert learned.at == learned.jobs["submit_s"].iloc[-1], "so the row of the table is as in the snapshot"
    for method in (Requested(), Last2(), LightGBM(learned.trees), Quantile(learned.forest)):
        answer = RuntimePredictor(pack(tmp_path / method.name, learned, method.name).data).predict(submission(learned)).iloc[0]
        expected = {name: seconds[0] for name, seconds in method.predict(row).items()}
        assert answer.drop(["snapshot_age_s", "user_known"]).to_dict() == expected, method.name
        assert len(expected) == (10 if method.name == Quantile.name else 1)
        assert expected["predicted_s"] > 1


@pytest.mark.parametrize("method", ["last2", "lightgbm", "quantile(order=accuracy)"])
def test_an_answer_says_whether_the_user_is_known_and_null_is_nobody(tmp_path, learned, method):
    predictor = RuntimePredictor(pack(tmp_path / "a", learned, method).data)
    one = submission(learned)
    users = [one["user"].iloc[0], "never seen", None, np.nan, pd.NA]
    answers = predictor.predict(pd.concat([one] * 5, ignore_index=True).assign(user=pd.Series(users, dtype=object)))
    assert answers["user_known"].tolist() == [True, False, False, False, False]
    assert answers["user_known"].dtype == bool
    assert answers["predicted_s"].iloc[1:].nunique() == 1
    assert answers["predicted_s"].between(1, one["requested_s"].iloc[0]).all()
    later = predictor.predict(one.assign(submit_time=one["submit_time"] + pd.Timedelta(hours=2)))
    assert (answers["snapshot_age_s"].iloc[0], later["snapshot_age_s"].iloc[0]) == (0, 7200)


@pytest.mark.parametrize("number", [1, None])
def test_another_format_is_refused(tmp_path, learned, number):
    settings = pack(tmp_path / "a", learned, "requested").data / "model.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"format": number}))
    with pytest.raises(ValueError, match=f"has format {number}, and this version reads {FORMAT}"):
        RuntimePredictor(settings.parent)


def save(directory, learned, **kwargs):
    directory.mkdir(exist_ok=True)
    parts = pack(directory / "parts", learned, **kwargs)
    mlflow.pyfunc.save_model(
        directory / "model",
        python_model=parts.script,
        code_paths=[str(parts.code)],
        artifacts={"runtime_model": str(parts.data)},
        pip_requirements=["mlflow"],
        signature=signature(("predicted_s",)),
    )
    shutil.rmtree(directory / "parts")
    return directory / "model"


def test_optional_columns_are_optional_and_other_types_are_refused_in_a_line(tmp_path, learned):
    model = mlflow.pyfunc.load_model(str(save(tmp_path, learned, method="last2")))
    plain = submission(learned)
    expected = model.predict(plain)
    assert expected["user_known"].all()
    assert expected["snapshot_age_s"].tolist() == [0]
    clock = plain["submit_time"]
    alike = {
        "without a time": plain.drop(columns="submit_time"),
        "nullable integers": plain.astype({"procs": "Int64", "requested_s": "Int64"}),
        "with what is unknown": plain.assign(group=[None], executable=["a.out"], elapsed_s=[0]),
    }
    for form, asked in alike.items():
        pd.testing.assert_frame_equal(model.predict(asked), expected, obj=form)
    assert not model.predict(plain[["procs", "requested_s"]])["user_known"].any()
    refused = {
        "is missing": plain.drop(columns="procs"),
        "column user. Can not safely convert int64": plain.assign(user=[1000]),
        "column procs. Can not safely convert float64": plain.assign(procs=[4.0]),
        "column submit_time. Can not safely convert str": plain.assign(submit_time=clock.dt.strftime("%Y-%m-%d %H:%M:%S")),
        "only contains timezone-naive datetime": plain.assign(submit_time=clock.dt.tz_localize(ZONE)),
        "procs: 0 is below 1": plain.assign(procs=[0]),
    }
    for says, asked in refused.items():
        with pytest.raises(MlflowException) as error:
            model.predict(asked)
        assert says in str(error.value).splitlines()[-1]


@pytest.mark.slow
def test_elapsed_time_and_levels_are_honoured_as_over_http(tmp_path, learned):
    model = mlflow.pyfunc.load_model(str(save(tmp_path, learned, method="quantile(order=accuracy)")))
    one = submission(learned, requested_s=[7200])
    fresh = model.predict(one)
    elapsed, point = int(fresh["predicted_50_s"].iloc[0]), fresh["predicted_s"].iloc[0]
    late = model.predict(one.assign(elapsed_s=[elapsed]), params={"quantiles": [0.5, 0.9]}).iloc[0]
    assert elapsed < late["predicted_50_s"] == late["quantile_0.5_s"] <= late["quantile_0.9_s"] <= 7200
    assert late["predicted_s"] == (late["predicted_50_s"] if elapsed >= point else point)
    outlived = model.predict(one.assign(elapsed_s=[int(point)])).iloc[0]
    assert outlived["predicted_s"] == outlived["predicted_50_s"] > point
    with pytest.raises(MlflowException, match="not all between 0 and 1"):
        model.predict(one, params={"quantiles": [1.5]})


def test_two_versions_in_one_process_keep_their_own_data_and_code(tmp_path, learned):
    table = learned.states.users
    slower = table.assign(last_runtime_s=table["last_runtime_s"] + 50, second_last_runtime_s=table["second_last_runtime_s"] + 50)
    paths = save(tmp_path / "a", learned, method="last2"), save(tmp_path / "b", learned, method="last2", table=slower)
    home = next((paths[1] / "code").iterdir())
    source = (home / "methods.py").read_text()
    assert source.count("np.floor(") == 1
    (home / "methods.py").write_text(source.replace("np.floor(", "0.5 * np.floor("))  # a later version of the code ...
    home.rename(home.with_name(f"{home.name.rsplit('_', 1)[0]}_{content_hash(modules_in(home))}"))  # ... has another hash
    long = submission(learned, requested_s=[10**6])
    first, second = (mlflow.pyfunc.load_model(str(path)) for path in paths)
    for _ in range(2):
        one, two = (model.predict(long)["predicted_s"].iloc[0] for model in (first, second))
        assert one > 100
        assert two == pytest.approx((one + 50) / 2, abs=1)


@pytest.mark.parametrize("loaded_before", [False, True])
def test_packed_code_that_is_not_what_was_packed_is_not_run(tmp_path, learned, loaded_before):
    path = save(tmp_path, learned, method="last2")
    if loaded_before:
        mlflow.pyfunc.load_model(str(path))
    module = next(path.glob("code/*/methods.py"))
    module.write_text(module.read_text().replace("np.floor(", "0.5 * np.floor("))
    with pytest.raises(Exception, match=r"its code is not what was packed .*: the model is damaged or was tampered with"):
        mlflow.pyfunc.load_model(str(path))
