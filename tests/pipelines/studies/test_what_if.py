"""The catalogue of candidates, and ``queuecast whatif`` on a recorded run of a real Slurm."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from features.errors import InputError
from pipelines.cli import cli
from pipelines.readers.slurm.jobs import SlurmJobs
from pipelines.report.what_if import answer, leading, render_what_if
from pipelines.report.what_if import groups as groups_of
from pipelines.studies import parity, what_if
from pipelines.studies.parity import read_site_jobs
from pipelines.studies.what_if import WhatIf, measure, read_candidates, records
from sim.site.changes import Changed, SiteChange, site_change
from sim.site.parity import apart, too_far
from sim.site.what_if import JUDGED_BY, Effect, Group, Measured
from sim.slurm.site import Site

pytestmark = pytest.mark.usefixtures("undrawn_pictures")
GOLDEN = Path(__file__).parents[2] / "golden" / "slurm"


@pytest.fixture(scope="module")
def recorded() -> tuple[Site, SlurmJobs]:
    return read_site_jobs(GOLDEN / "tiers-A.txt", GOLDEN / "tiers-A", "UTC")


def test_every_candidate_of_the_catalogue_changes_the_site_or_nothing(recorded: tuple[Site, SlurmJobs]) -> None:
    changes = {each.name: what_if.change(each, recorded[0], recorded[1].table) for each in read_candidates()}
    assert len(changes) > 12
    assert all(each is None or each.lines for each in changes.values())
    assert changes["no backfill"] is not None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[[candidate]\n", "is not TOML"),
        ("name = 'x'\n", "must hold"),
        ("[[candidate]]\nwhat = 'x'\n", "candidate 1 has no name"),
        ("[[candidate]]\nname = 'x'\n[[candidate]]\nname = 'x'\n", "candidate 2 has no name, or the name of another candidate"),
        ("[[candidate]]\nname = 'x'\nlimit = 'x2'\n", "candidate x: unknown key 'limit'; did you mean limits"),
        ("[[candidate]]\nname = 'x'\nslurm = 'x2'\n", "candidate x: slurm is not of the right form"),
    ],
)
def test_a_wrong_file_of_candidates_is_refused(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=rf"mine\.toml:.*{error}"):
        read_candidates(file)


def test_a_record_without_starts_has_nothing_to_compare_a_replay_with(recorded: tuple[Site, SlurmJobs]) -> None:
    site, jobs = recorded
    waiting = jobs._replace(table=jobs.table.assign(start_s=-1, end_s=-1))
    with pytest.raises(InputError, match="none of its jobs has started"):
        parity.measure(site, waiting, 1, 0, lambda *_: None)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_long_log_is_screened_on_its_earlier_half_and_judged_on_its_later(
    recorded: tuple[Site, SlurmJobs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "_FEWEST_JOBS", 20)
    monkeypatch.setattr(what_if, "_FEWEST_DAYS", 0)
    monkeypatch.setattr(what_if, "MOST_PASSED", 1)
    tried = [site_change("no backfill", slurm={"SchedulerType": "sched/builtin"}), site_change("twice the nodes", nodes="x2")]
    study = measure(*recorded, tried, 3, 5, 0, map, lambda *_: None)
    assert study.split
    assert list(study.effects) == ["twice the nodes"]
    assert study.screened["no backfill"] > 0
    judged = sum(each.jobs for each in study.effects["twice the nodes"].groups if each.by == "size")
    assert judged == pytest.approx(len(recorded[1].table) / 2, abs=2)
    lines = answer(study)
    assert len(lines) <= 3
    assert "the later half of" in " ".join(lines)


@pytest.mark.slow
def test_the_command_prints_objects_and_writes_a_page(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        "[[candidate]]\nname = 'all together'\npartitions = { '*' = { PriorityTier = 7 } }\n[[candidate]]\nname = 'backfill as it is'\n"
    )
    page = tmp_path / "page.html"
    arguments = ["whatif", str(GOLDEN / "tiers-A.txt"), "--machine", str(GOLDEN / "tiers-A"), "--candidates", str(mine)]
    asked = ("all together", "no backfill", "backfill as it is")
    arguments += [*(word for name in asked for word in ("--only", name)), "--replicates", "3", "--report", str(page), "--json"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert {each["candidate"] for each in objects[:-1]} == {*asked}
    assert [each["verdict"] for each in objects if each.get("candidate") == "backfill as it is"] == ["changes nothing here"]
    assert all(set(each) >= {"metric", "change", "low", "high", "verdict"} for each in objects[:-1])
    assert objects[-1]["answer"]
    assert not any(each.get("lines") for each in objects), "three pairs make nothing sure"
    assert "SchedulerType=sched/builtin" not in page.read_text()


def test_the_first_screen_has_the_answer_and_what_changes_nothing_and_no_lines_if_nothing_is_sure() -> None:
    asked = ["whatif", str(GOLDEN / "tiers-A.txt"), "--machine", str(GOLDEN / "tiers-A"), "--replicates", "2"]
    for name in ("a tenth more nodes", "maintenance each Tuesday", "plan a week"):
        asked += ["--only", name]
    screen = CliRunner().invoke(cli, asked).stdout
    assert len(screen.splitlines()) <= 40
    assert "surely better" in screen.splitlines()[0]
    assert "slurm.conf" not in screen
    assert re.search(r"Changes nothing here: .*plan a week", screen)


FIT = {"recorded_mean_wait_s": 49.97, "mean_wait_s": 49.5, "low_s": 42.5, "high_s": 56.5, "replays": 40, "decisions": 0.96}
FIT |= {"phases_from_log": False}


def judged(recorded: tuple[Site, SlurmJobs], *tried: tuple[SiteChange, int], kills: frozenset[int] = frozenset()) -> WhatIf:
    """Return two candidates with their mean waits, in place of 10 s; the first is called surely better, and ``kills`` jobs."""
    (first, _), (second, _) = tried
    site, jobs = recorded
    effects = {
        each.name: Effect(dict.fromkeys(JUDGED_BY, Measured(wait, 10, wait / 10 - 1, None, None, None)), [], 0)
        for each, wait in tried
    }
    today = Changed(site, jobs.table, ("x=1",), frozenset())
    changes = {first.name: today._replace(kills=kills), second.name: today}
    verdicts, names = {first.name: "better", second.name: "not sure"}, {each.name: each for each, _ in tried}
    return WhatIf(site, jobs, names, changes, (), {}, effects, verdicts, FIT, 10.0, False, 8, 5)


def test_a_candidate_that_loses_many_jobs_never_leads_and_is_said_to(recorded: tuple[Site, SlurmJobs]) -> None:
    table = recorded[1].table
    kills = frozenset(table["job_id"][: len(table) // 2])
    study = judged(recorded, (site_change("half limits", limits="x0.5"), 5), (site_change("other"), 11), kills=kills)
    assert study.ranked == ["other", "half limits"]
    assert answer(study)[0].endswith(": nothing is surely better; the nearest of 2 candidates is “other”.")
    assert "loses 50% of jobs" in render_what_if(study, {})
    alone = replace(study, effects={"half limits": study.effects["half limits"]})
    assert alone.lead is None
    assert answer(alone) == ["Nothing here is surely better: “half limits” would lose 50% of the jobs, killed or never started."]
    some = replace(alone, changes={"half limits": study.changes["half limits"]._replace(kills=frozenset(list(kills)[:2]))})
    assert some.lead == "half limits"
    only = replace(study, effects={"other": study.effects["other"]})
    assert answer(only)[0].endswith(": nothing is surely better; one candidate was judged, “other”.")


def shown_as_better(study: WhatIf) -> list[set[str]]:
    """Return the names that the headline, the tile, the table, the page's lines and the JSON show as surely better in Slurm."""
    page, headline = render_what_if(study, {}), answer(study)[0]
    named = {name for name in study.effects if f"“{name}”" in headline and ("Change to" in headline or "is:" in headline)}
    tile = re.search(r"(\d+)</[^>]+>\s*<[^>]+>surely better, in Slurm", page)
    assert tile is not None
    assert int(tile[1]) == len(study.better)
    table = {row[0].text for row in leading(study).cells if row[1].text == "better"}
    lines = {name for name in study.effects if study.lines(name)}
    return [named, table, lines, {row["candidate"] for row in records(study) if row["verdict"] == "better" and row["lines"]}]


def test_headline_tile_table_page_and_objects_name_the_same_candidates(recorded: tuple[Site, SlurmJobs]) -> None:
    nodes, setting = (site_change("more nodes", nodes="x2"), 5), (site_change("a setting"), 10)
    assert shown_as_better(judged(recorded, nodes, setting)) == [{"more nodes"}] * 4
    assert shown_as_better(judged(recorded, setting, nodes)) == [{"a setting"}] * 4
    kills = frozenset(recorded[1].table["job_id"][:50])
    assert shown_as_better(judged(recorded, nodes, setting, kills=kills)) == [set()] * 4


def test_a_record_of_minutes_tells_of_its_own_jobs_alone_and_orders_nothing(recorded: tuple[Site, SlurmJobs]) -> None:
    study = judged(recorded, (site_change("a setting"), 5), (site_change("other"), 10))
    study = replace(study, verdicts={**study.verdicts, "a setting": "better here"})
    assert not study.several
    first_line = answer(study)[0]
    assert re.match(r"A record of .* tells of these very jobs alone, not of those of other days: ", first_line)
    assert "“a setting” is better" in first_line
    assert "Change to" not in " ".join(answer(study))
    assert not any(study.lines(name) for name in study.effects)


def test_small_groups_are_marked_and_pay_nothing(recorded: tuple[Site, SlurmJobs]) -> None:
    study = judged(recorded, (site_change("a setting"), 5), (site_change("other"), 10))
    groups = [Group("size", "2 processors or more", 56, 44, 39), Group("size", "17 processors or more", 7, 40, 43.4)]
    study = replace(study, effects={**study.effects, "a setting": study.effects["a setting"]._replace(groups=groups)})
    payers = answer(study)[2]
    assert payers == "In the mean, no group of 20 jobs or more waits longer; size 2 processors or more (56 jobs) waits 5 s less."
    assert [row[-1].text for row in groups_of(study, "a setting").cells] == ["−5", "+3 (few jobs)"]


def test_a_verdict_names_the_metric_that_rises(recorded: tuple[Site, SlurmJobs]) -> None:
    study = judged(recorded, (site_change("a setting"), 5), (site_change("other"), 10))
    metrics = {**study.effects["a setting"].metrics, "awf_s": Measured(11, 10, 0.1, 0.05, 0.15, 0.01)}
    effects = {**study.effects, "a setting": study.effects["a setting"]._replace(metrics=metrics)}
    study = replace(study, effects=effects, verdicts={**study.verdicts, "a setting": "mixed"})
    assert {row[0].text: row[1].text for row in leading(study).cells}["a setting"] == "mixed: AWF up"


def test_a_model_far_from_its_record_advises_nothing(recorded: tuple[Site, SlurmJobs]) -> None:
    study = replace(judged(recorded, (site_change("a setting"), 5), (site_change("other"), 10)), fit=FIT | {"decisions": 0.7})
    assert answer(study) == [
        "This model is too far from the record of tiers-a to advise: 70.0 % of the recorded starts are decided as recorded, under 90.0 %. "
        "queuecast parity shows where."
    ]
    assert shown_as_better(study) == [set()] * 4
    assert {row["verdict"] for row in records(study)} == {"not sure"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({"decisions": 0.8996}, "89.96 % of the recorded starts are decided as recorded, under 90.00 %"),
        (
            {"high_s": 49.96},
            "the recorded mean wait, 49.97 s, lies outside 42.50 to 49.96 s, where the mean wait of one more replay lies with 95 %, by "
            "40 replays of today's settings",
        ),
        ({"low_s": 45.9, "high_s": 46.1, "mean_wait_s": 46.0, "phases_from_log": True}, ""),
        (
            {"low_s": 39.9, "high_s": 40.1, "mean_wait_s": 40.0, "phases_from_log": True},
            "with the log's phases jobs wait 40.0 s in the mean, recorded 50.0 s: over 10% apart",
        ),
    ],
)
def test_how_far_is_too_far(changed: dict[str, float], why: str) -> None:
    assert too_far(FIT | changed) == why


def test_figures_are_told_apart_by_their_decimals() -> None:
    assert apart(50.0, 19.0, 50.02) == ["50.00", "19.00", "50.02"]
    assert apart(30.0, 19.0, 50.0) == ["30.0", "19.0", "50.0"]


def test_whatif_judges_the_model_by_the_replays_of_parity(recorded: tuple[Site, SlurmJobs]) -> None:
    tried = [site_change("no backfill", slurm={"SchedulerType": "sched/builtin"})]
    study = measure(*recorded, tried, 2, 60, 0, map, lambda *_: None, fit_replays=3)
    beside = parity.measure(*recorded, 3, 0, lambda *_: None).summary
    assert study.fit == {name: beside[name] for name in study.fit}
    assert study.far == beside["far"]


def test_stages_are_reported_as_they_begin(recorded: tuple[Site, SlurmJobs]) -> None:
    reported = list[tuple[str, int, int]]()
    tried = [site_change("no backfill", slurm={"SchedulerType": "sched/builtin"})]
    measure(*recorded, tried, 2, 60, 0, map, lambda *step: reported.append(step), fit_replays=2)
    begun = [stage for stage, done, _ in reported if done == 0]
    assert begun == ["replays of the record", "single decisions", "pairs of replays", "effects"]


def test_a_sites_folder_adds_candidates_of_its_own_under_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "candidates.toml").write_text("[[candidate]]\nname = 'mine'\nnodes = 'x2'\n")
    other = tmp_path / "other.toml"
    other.write_text("[[candidate]]\nname = 'no backfill'\n")
    assert {each.name for each in what_if.all_candidates(tmp_path)} == {each.name for each in read_candidates()} | {"mine"}
    with pytest.raises(InputError, match=r"other\.toml: several candidates are named no backfill"):
        what_if.all_candidates(None, other)
