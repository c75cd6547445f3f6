"""The report says what the numbers say, needs nothing outside itself, and draws whatever a trace may hold."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.clock import WEEK_S
from pipelines.report import page as pages
from pipelines.report import plots
from pipelines.report.page import MOST_ROWS, encode
from pipelines.report.tables import leading, render_report
from sim.metrics.comparison import compare
from sim.metrics.verdict import verdict
from sim.schedule import Schedule
from tests.sim.metrics.test_schedule_metrics import schedule_of
from tests.support.answers import numbers_from_nowhere

BASELINE = ("EASY", "requested")


def schedules_of(weeks: int = 9, jobs: int = 120, generated: bool = False) -> list[Schedule]:
    """A baseline, two predictors under EASY-SJBF and a recorded schedule, of random jobs."""
    rng = np.random.default_rng(4)
    submit = np.sort(rng.integers(0, weeks * WEEK_S, jobs))
    wait, runtime = rng.integers(0, 20_000, jobs), rng.integers(1, 40_000, jobs)
    common = {"runtime": runtime, "procs": rng.integers(1, 9, jobs), "user": rng.choice(list("abc"), jobs), "machine": 64}
    origin = {"trace": "toy", "generated": generated}
    return [
        schedule_of(submit, wait, predicted=runtime * 3, **common, **origin),
        schedule_of(submit, wait * 8 // 10, predicted=runtime * 0.9, **common, **origin, scheduler="EASY-SJBF", predictor="last2"),
        schedule_of(submit, wait // 2, **common, **origin, scheduler="EASY-SJBF", predictor="clairvoyant"),
        schedule_of(submit, wait * 3, **common, **origin, scheduler="recorded", predictor="", correction=""),
    ]


def predictions_of(schedules: list[Schedule]) -> pd.DataFrame:
    names = dict.fromkeys(schedule.predictor for schedule in schedules if schedule.predictor)
    rows = [
        {"predictor": name, "by": by, "group": group, "measure": measure, "jobs": 120, "value": value, "low": 0.4, "high": 0.6}
        for name in names
        for by, group, measure, value in (
            ("all", "all", "accuracy", 0.5),
            ("all", "all", "underprediction_rate", 0.25),
            ("all", "all", "mae_s", 1234.5),
            ("level", "0.8", "at_most", 0.81),
        )
    ]
    return pd.DataFrame(rows)


def page_of(schedules: list[Schedule], name: str = "toy", requests_from_runtimes: int = 0, cleaned: bool = True, **given) -> str:
    counts = {("dropped", "no-runtime"): 8, ("altered", "runtime-cut-to-request"): 1470} if cleaned else {}
    touched = {"request-from-runtime altered": requests_from_runtimes}
    first = schedules[0]
    trace: Any = SimpleNamespace(name=name, generated=first.generated, jobs=first.jobs, procs=first.procs, machine=None)
    trace.counts, trace.touched = lambda: pd.Series(counts), lambda: touched
    values = {
        "comparison": compare(schedules),
        "quality": predictions_of(schedules),
        "provenance": {"data fingerprint": "0123abcd", "seed": 0, "parameters": {"tau_s": 10.0}},
        "notes": ["<script>alert(1)</script> & more"],
    }
    return render_report(trace, **(values | given))


@pytest.fixture(scope="module")
def schedules() -> list[Schedule]:
    return schedules_of()


@pytest.fixture(scope="module")
def page(schedules) -> str:
    return page_of(schedules)


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are built, not rendered; what they hold of words outside their panels is returned."""
    written: list[list[str]] = []
    monkeypatch.setattr(pages, "encode", lambda drawing, image: written.append([text.get_text() for text in drawing.texts]) or b"")
    return written


class Page(HTMLParser):
    """Tags with their attributes, and the text a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_the_page_loads_nothing_from_outside(page):
    tags = Page(page).tags
    images = [attributes["src"] for tag, attributes in tags if tag == "img"]
    assert len(images) == 1
    assert all(source.startswith("data:image/") for source in images)
    assert not [tag for tag, _ in tags if tag in ("link", "script", "iframe", "object")]
    assert not re.search(r"(src|href)=\"(?!data:|toy\.csv)|url\(|@import", page)


@pytest.mark.usefixtures("undrawn")
def test_what_data_say_is_text_and_never_markup():
    nasty = page_of(schedules_of(), name="<b>x</b>", provenance={"<i>": "<u>"})
    assert not re.search("<b>x|<i>|<u>|<script>", nasty)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in nasty


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_every_number_of_the_answer_stands_below_it(schedules):
    moved = [
        replace(each, seed=seed, jobs=each.jobs.assign(start_s=each.jobs["start_s"] + seed))
        for each in schedules
        for seed in range(3)
    ]
    for compared in (schedules, moved):
        page = page_of(compared, comparison=compare(compared))
        assert numbers_from_nowhere(page) == set()
        assert numbers_from_nowhere(page.replace("</section>", "4,321.0 %</section>")) == {"4,321.0"}


@pytest.mark.parametrize("generated", [True, False])
def test_a_generated_workload_says_so_on_the_page_and_in_every_figure(generated, undrawn):
    page = page_of(schedules_of(generated=generated))
    assert ("Generated workload: these jobs were drawn from a model" in page) == generated
    assert ("of a real trace" in page) != generated
    assert len(undrawn) == 1
    assert all(("generated workload" in words) == generated for words in undrawn)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("count", "phrase"), [(30, "for 30 of 120 jobs (25.0 %)"), (120, "for all 120 jobs")])
def test_requests_taken_from_runtimes_are_said_above_all_numbers(schedules, count, phrase):
    text = Page(page_of(schedules, requests_from_runtimes=count)).text
    assert phrase in text
    assert text.index("The requested time is the runtime") < text.index("jobs of a real trace")
    assert "the baseline EASY / requested, is clairvoyant" in text
    assert "no predictor can over-predict" in text


@pytest.mark.slow
def test_figures_are_the_same_bytes_for_the_same_input(schedules):
    table = compare(schedules)
    for image, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        first, again = (
            encode(plots.figure_of_changes(table, leading(table, verdict(table, BASELINE)), False), image) for _ in range(2)
        )
        assert first == again
        assert first.startswith(magic)


@pytest.mark.slow
@pytest.mark.parametrize(
    "compared",
    [
        pytest.param([schedule_of([0], [0], [5], [1])], id="one job that never waits"),
        pytest.param([schedule_of([0, 9], [0, 0], [5, 5], [1, 1], user=[None, None])], id="no users and no waits"),
        pytest.param(schedules_of(weeks=1, jobs=5), id="one week", marks=pytest.mark.thorough),
        pytest.param(
            [
                replace(
                    schedules_of()[i % 3],
                    scheduler=f"EASY(reservations={1 + i // 6})" if i else "EASY",
                    predictor=f"p{i % 6}" if i else "requested",
                )
                for i in range(24)
            ],
            id="two dozen combinations",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_extreme_comparisons_are_drawn_without_a_warning(compared):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = page_of(compared, quality=pd.DataFrame(columns=list(predictions_of(compared))), cleaned=False)
    text = Page(page).text
    assert "No predictions were measured." in text
    assert "No job was dropped or altered." in text
    assert text.count("correction: ") <= 2 * MOST_ROWS


@pytest.mark.usefixtures("undrawn")
def test_the_page_judges_predictions_and_says_from_when_on_jobs_are_judged(schedules) -> None:
    text = page_of(schedules, judged=(0, "1997-05-01"))
    assert "Judged are the jobs submitted from 1997-05-01 on" in text
    (row,) = re.findall(r"<tr><th>last2(?:<small>.*?)?</th>.*?</tr>", text)
    for words in ("50.0 % [40.0, 60.0]", "81.0 %", "1,234"):
        assert words in row
    assert "runtimes within its 80% quantile" in text
