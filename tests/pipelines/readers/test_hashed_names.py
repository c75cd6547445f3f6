"""Names stored hashed with a site's key: nothing else changes, no name is kept, and another key is detected."""

from __future__ import annotations

import pandas as pd
import pytest

from features.clock import DAY_S, local_clock_s
from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import start_s
from models.packed.runtime_predictor import RuntimePredictor
from models.packed.site_names import VARIABLE, check_value, hashed
from models.registry.candidates import TRAINERS, accounting, fit
from models.registry.packing import assemble
from models.registry.runtime_registration import Snapshot, runtime_content
from pipelines.lake.registry import submissions
from pipelines.lake.tables import Lake
from pipelines.readers.canonical import write_canonical
from pipelines.readers.read import read_trace
from tests.support.learning import people, workload

KEY, OTHER = "a key of this site alone", "a key of another site"
ZONE = "Europe/Stockholm"


@pytest.fixture(scope="module")
def accounting_file(tmp_path_factory):
    """Slurm accounting with names, and a line that cannot be split."""
    jobs, start = workload(1200, weeks=3)
    jobs = people(jobs)
    submit = jobs["submit_s"].to_numpy() + 1_700_000_000
    times = [local_clock_s(each - jobs["submit_s"].to_numpy(), 0, ZONE) for each in (submit, submit)]
    text = {name: jobs[name].astype(object).where(jobs[name].notna(), "") for name in ("user", "group", "executable")}
    begin, wait = times[0] + jobs["submit_s"].to_numpy(), start - jobs["submit_s"].to_numpy()
    iso = [(begin + shift).astype("datetime64[s]").astype(str) for shift in (0, wait, wait + jobs["runtime_s"].to_numpy())]
    table = pd.DataFrame(
        {"JobIDRaw": jobs["job_id"], "User": text["user"], "Account": text["group"], "JobName": text["executable"]}
        | {"Submit": iso[0], "Start": iso[1], "End": iso[2], "ElapsedRaw": jobs["runtime_s"], "ReqCPUS": jobs["procs"]}
        | {"TimelimitRaw": -(-jobs["requested_s"] // 60), "State": "COMPLETED"}
    )
    path = tmp_path_factory.mktemp("accounting") / "site.txt"
    path.write_text(table.to_csv(sep="|", index=False) + "77777|user1|x\n")
    return path


def read(path, key: str = "") -> CleanTrace:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, key)
        return clean(read_trace(path, timezone=ZONE, procs=64))


@pytest.fixture(scope="module")
def both(accounting_file) -> tuple[CleanTrace, CleanTrace]:
    return read(accounting_file), read(accounting_file, KEY)


def predictor(clean: CleanTrace, method: str, directory) -> RuntimePredictor:
    start = start_s(clean.jobs)
    assert start is not None
    record = accounting(clean.jobs, start, clean.origin_unix_s, clean.timezone)
    at = record.until_s - 2 * DAY_S
    users = Snapshot(record.snapshot(at), at, clean.origin_unix_s, clean.timezone, hashed_with=clean.hashed_with)
    content = runtime_content(fit(method, record, at, 0), users)
    directory.mkdir()
    return RuntimePredictor(assemble(directory, "runtime", content.write).data)


@pytest.mark.slow
@pytest.mark.parametrize("method", TRAINERS)
def test_predictions_are_those_without_hashing(both, tmp_path, monkeypatch, method):
    plain, hidden = (predictor(each, method, tmp_path / name) for each, name in zip(both, ("plain", "hidden"), strict=True))
    asked = submissions(both[0]).tail(400)
    monkeypatch.setenv(VARIABLE, KEY)
    expected, answers = plain.predict(asked), hidden.predict(asked)
    pd.testing.assert_frame_equal(answers, expected)
    pd.testing.assert_frame_equal(hidden.predict(submissions(both[1]).tail(400)), expected)  # names as they are stored
    assert expected["user_known"].mean() > 0.5


def test_no_name_is_left_and_all_else_is_the_same(both):
    plain, hidden = both
    names = ["user", "group", "executable"]
    for name in names:
        again = plain.jobs[name].astype(object).map(lambda text: hashed(text, KEY), na_action="ignore")
        assert hidden.jobs[name].astype(object).fillna("").tolist() == again.fillna("").tolist()
    pd.testing.assert_frame_equal(hidden.jobs.drop(columns=names), plain.jobs.drop(columns=names))
    assert "user1" in plain.rejected_jobs.to_csv()
    assert "user1" not in hidden.rejected_jobs.to_csv() + hidden.jobs.to_csv()
    assert (plain.hashed_with, hidden.hashed_with) == ("", check_value(KEY))


def test_another_key_and_none_are_detected_by_a_model(both, tmp_path, monkeypatch):
    model, asked = predictor(both[1], "last2", tmp_path / "a"), submissions(both[0]).tail(3)
    for key, why in ((OTHER, "were hashed with another key than"), ("", "are hashed: set .* to the key"), ("short", "at least 16")):
        monkeypatch.setenv(VARIABLE, key)
        with pytest.raises(ValueError, match=why):
            model.predict(asked)
    monkeypatch.delenv(VARIABLE)
    assert len(model.predict(submissions(both[1]).tail(3))) == 3


def test_a_lake_takes_no_other_names_in_place_of_hashed_ones(both, accounting_file, tmp_path):
    plain, hidden = both
    lake = Lake(tmp_path)
    lake.write_clean(plain)
    lake.write_clean(hidden)
    assert lake.read_clean("site").hashed_with == check_value(KEY)
    for other, why in ((read(accounting_file, OTHER), "another key"), (plain, "is not set")):
        with pytest.raises(InputError, match=why):
            lake.write_clean(other)
    lake.write_clean(hidden)


def test_a_stored_table_is_read_with_its_key_and_refused_with_another(both, accounting_file, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    trace = read_trace(accounting_file, timezone=ZONE)
    write_canonical(trace, tmp_path / "site.parquet")
    assert read(tmp_path / "site.parquet", KEY).jobs["user"].tolist() == both[1].jobs["user"].tolist()
    with pytest.raises(InputError, match="another key"):
        read(tmp_path / "site.parquet", OTHER)
