"""The report says what the numbers say, needs nothing outside itself, and draws whatever a trace may hold."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from features.clock import WEEK_S
from features.errors import InputError
from pipelines.report import plots
from pipelines.report.html import render_report, write_report
from pipelines.report.style import encode, figure, key, looks
from pipelines.report.tables import metric_table
from pipelines.report.wording import nothing_waited, summary
from sim.metrics.comparison import compare
from sim.metrics.formats import change, interval, number
from sim.metrics.names import COMPARED, METRICS
from sim.schedule import Schedule
from tests.conftest import needs_shared
from tests.sim.metrics.test_schedule_metrics import reference, schedule_of

BASELINE = ("EASY", "requested")


def schedules_of(weeks: int = 9, jobs: int = 120, generated: bool = False) -> list[Schedule]:
    """A baseline, two predictors under EASY-SJBF and a recorded schedule, of random jobs."""
    rng = np.random.default_rng(4)
    submit = np.sort(rng.integers(0, weeks * WEEK_S, jobs))
    wait, runtime = rng.integers(0, 20_000, jobs), rng.integers(1, 40_000, jobs)
    common = {"runtime": runtime, "procs": rng.integers(1, 9, jobs), "user": rng.choice(list("abc"), jobs), "machine": 64}
    made = {"trace": "toy", "generated": generated}
    return [
        schedule_of(submit, wait, predicted=runtime * 3, **common, **made),
        schedule_of(submit, wait * 8 // 10, predicted=runtime * 0.9, **common, **made, scheduler="EASY-SJBF", predictor="last2"),
        schedule_of(submit, wait // 2, **common, **made, scheduler="EASY-SJBF", predictor="clairvoyant"),
        schedule_of(submit, wait * 3, **common, **made, scheduler="recorded", predictor="", correction=""),
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
            ("experience", "new", "accuracy", 0.3),
            ("level", "0.8", "at_most", 0.81),
        )
    ]
    return pd.DataFrame(rows)


def page_of(schedules: list[Schedule], **given) -> str:
    values = {
        "trace": "toy",
        "comparison": compare(schedules),
        "schedules": schedules,
        "quality": predictions_of(schedules),
        "cleaning_counts": pd.Series({("dropped", "no-runtime"): 8, ("altered", "runtime-cut-to-request"): 1470}),
        "provenance": {"data fingerprint": "0123abcd", "seed": 0, "parameters": {"tau_s": 10.0}},
        "notes": ["<script>alert(1)</script> & more"],
        "generated": False,
    }
    return render_report(**(values | given))


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
    monkeypatch.setattr(plots, "encode", lambda drawing, image: written.append([text.get_text() for text in drawing.texts]) or b"")
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
    assert len(images) == 5
    assert all(source.startswith("data:image/") for source in images)
    assert not [tag for tag, _ in tags if tag in ("link", "script", "iframe", "object")]
    assert not re.search(r"(src|href)=\"(?!data:)|url\(|@import", page)


@pytest.mark.usefixtures("undrawn")
def test_what_data_say_is_text_and_never_markup():
    nasty = page_of(schedules_of(), trace="<b>x</b>", provenance={"<i>": "<u>"})
    assert not re.search("<b>x|<i>|<u>|<script>", nasty)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in nasty


def test_every_part_of_the_brief_is_on_the_page(page, schedules):
    text = Page(page).text
    for title in ("Metrics", "Fairness between users", "Predictions", "Cleaning", "How to read the metrics", "Provenance"):
        assert title in text
    assert "120" in text
    assert "1,470" in text
    assert "runtime-cut-to-request" in text
    assert "0123abcd" in text
    assert "MAE, s" in text
    assert "1,234" in text
    assert "generated workload" not in text.lower()
    for name in COMPARED:
        assert METRICS[name].title in text
        assert METRICS[name].meaning in text


def test_the_table_prints_value_change_and_interval_of_each_metric(schedules):
    table = compare(schedules)
    combinations = looks((s.scheduler, s.predictor, s.correction) for s in schedules)
    made, place = metric_table(table, combinations, (*BASELINE, "requested")), 1 + COMPARED.index("mean_wait_s")
    assert made.classes == ["baseline", "", "", "recorded"]
    found = table[(table["predictor"] == "last2") & (table["metric"] == "mean_wait_s")].iloc[0]
    value, (changed, _), (between, _) = made.cells[1][place].lines()[0], *made.cells[1][place].below
    assert value == f"{found['value']:,.0f}"
    assert changed == f"−{-100 * found['relative']:.1f} %"
    assert between == f"[−{-100 * found['low']:.1f}, −{-100 * found['high']:.1f}]"
    assert {tone for row in made.cells for cell in row for _, tone in cell.below} == {""}  # one replay shows nothing of chaos
    waits = [row[place] for row in metric_table(table.assign(sure=True), combinations, (*BASELINE, "requested")).cells]
    assert (waits[1].below[0][1], waits[3].below[0][1]) == ("better", "worse")
    assert [cell.best for cell in waits] == [False, False, True, False]


def test_the_summary_names_the_best_with_its_interval_and_the_best_without_hindsight(schedules):
    table = compare(schedules)
    first, second, recorded = summary(table, BASELINE, 0.95)
    for sentence, predictor in ((first, "clairvoyant"), (second, "last2")):
        chosen = table[table["predictor"] == predictor].set_index("metric")
        slowdown, awf = chosen.loc["mean_bounded_slowdown"], chosen.loc["awf_s"]
        assert f"EASY-SJBF / {predictor}: {slowdown['value']:.2f}" in sentence
        assert f"95 % interval {change(slowdown['low'])} to {change(slowdown['high'])}, 9 weeks" in sentence
        assert f"improves packing (AWF {change(awf['relative'])} {interval(awf['low'], awf['high'])})" in sentence
    assert "knows the actual runtimes" in first
    assert "recorded" in recorded


def cost_of(relative: float, low: float, high: float) -> str:
    rows = [
        {"scheduler": scheduler, "predictor": "requested", "correction": "requested", "metric": metric, "value": value, "weeks": 9}
        | {"relative": relative, "low": low, "high": high}
        for scheduler, value in (("EASY", 9.0), ("EASY-SJBF", 5.0))
        for metric in ("mean_bounded_slowdown", "awf_s")
    ]
    return summary(pd.DataFrame(rows), BASELINE, 0.9)[0]


def test_the_summary_calls_a_change_clear_only_where_the_interval_leaves_out_zero():
    assert "worsens packing (AWF +5.0 % [+1.0, +9.0])" in cost_of(0.05, 0.01, 0.09)
    assert "improves packing (AWF −5.0 % [−9.0, −1.0])" in cost_of(-0.05, -0.09, -0.01)
    assert "leaves packing without a clear change (AWF +5.0 % [−1.0, +9.0])" in cost_of(0.05, -0.01, 0.09)
    assert "changes packing (AWF +5.0 %)" in cost_of(0.05, np.nan, np.nan)


def test_the_summary_names_the_best_that_costs_neither_packing_nor_fairness():
    def said(awf: float, scheduler: str = "Harm") -> list[str]:
        rows = [
            {"scheduler": name, "predictor": predictor, "correction": "requested", "metric": metric, "weeks": 9}
            | {"relative": relative, "value": 10 * (1 + relative), "low": relative - 0.01, "high": relative + 0.01}
            for name, predictor, changes in (
                ("EASY", "requested", (0.0, 0.0, 0.0)),
                ("EASY-SJBF", "clairvoyant", (-0.6, 0.0, 0.0)),
                ("EASY-SJBF", "last2", (-0.4, 0.05, 0.2)),
                (scheduler, "quantile", (-0.3, awf, -0.02)),
            )
            for metric, relative in zip(("mean_bounded_slowdown", "awf_s", "p2sf_s"), changes, strict=True)
        ]
        return summary(pd.DataFrame(rows), BASELINE, 0.95)

    _, without_hindsight, free = said(-0.01)
    assert "the lowest is that of EASY-SJBF / last2" in without_hindsight
    assert free.startswith(
        "With predictors that do not know the runtime and neither AWF nor P2SF above the baseline's, the lowest is that of Harm / quantile: 7.00"
    )
    assert len(said(0.01)) == 2  # it is dearer, too: nothing but the baseline costs nothing


def test_where_requests_are_runtimes_the_summary_does_not_claim_that_only_clairvoyant_knows_them(schedules):
    table = compare(schedules)
    assert summary(table, BASELINE, 0.95)[1].startswith("Of the predictors that do not know the runtime, the lowest is")
    stated = summary(table, BASELINE, 0.95, requests_known=False)
    assert stated[1].startswith("Of the predictors other than clairvoyant, the lowest is")


def test_the_summary_says_when_the_baseline_is_not_beaten(schedules):
    base, _, _, recorded = schedules
    worse = replace(recorded, scheduler="LCFS", predictor="requested", correction="requested")
    assert "the baseline's own" in summary(compare([base, worse]), BASELINE, 0.95)[0]
    assert "nothing to compare" in summary(compare([base]), BASELINE, 0.95)[0]


def test_numbers_are_printed_by_their_kind_and_absent_ones_as_a_dash():
    assert [number(1234.567, kind) for kind in ("seconds", "ratio", "count")] == ["1,235", "1,234.57", "1,235"]
    assert number(0.1234, "share") == "12.3 %"
    assert number(np.nan, "seconds") == change(np.nan) == "–"
    assert [change(value) for value in (0.0, -0.0001, 0.5, 72.6)] == ["0.0 %", "0.0 %", "+50.0 %", "+7,260.0 %"]
    assert interval(np.nan, np.nan) == ""


@pytest.mark.parametrize("generated", [True, False])
def test_a_generated_workload_says_so_on_the_page_and_in_every_figure(generated, undrawn):
    page = page_of(schedules_of(generated=generated))
    assert ("Generated workload: these jobs were drawn from a model" in page) == generated
    assert ("of a real trace" in page) != generated
    assert len(undrawn) == 5
    assert all(("generated workload" in words) == generated for words in undrawn)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("count", "said"), [(30, "for 30 of 120 jobs (25.0 %)"), (120, "for all 120 jobs")])
def test_requests_taken_from_runtimes_are_said_above_all_numbers(schedules, count, said):
    text = Page(page_of(schedules, requests_from_runtimes=count)).text
    assert said in text
    assert text.index("The requested time is the runtime") < text.index("jobs of a real trace")
    assert "the baseline EASY / requested, is clairvoyant" in text
    assert "no predictor can over-predict" in text
    assert "that do not know the runtime" not in text


def test_no_request_taken_from_a_runtime_needs_no_warning(page):
    assert "The requested time is the runtime" not in page
    assert "Of the predictors that do not know the runtime" in page


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("weeks", "claimed"), [(3, False), (9, True)])
def test_the_page_claims_intervals_only_where_there_are_some(weeks, claimed):
    text = Page(page_of(schedules_of(weeks=weeks))).text
    for words in ("95 %", "lines its intervals", "intervals leave that out", "the jackknife"):
        assert (words in text) == claimed, words
    assert ("No interval: 3 weeks are too few" in text) != claimed


@pytest.mark.slow
def test_figures_are_the_same_bytes_for_the_same_input(schedules):
    table = compare(schedules)
    for image, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        first, again = (plots.metrics_by_combination(table, BASELINE, False, image=image) for _ in range(2))
        assert first == again
        assert first.startswith(magic)


def test_a_predictor_has_one_colour_and_a_scheduler_one_mark():
    easy, last2, sjbf_last2, sjbf_nag, recorded = keys = [
        ("EASY", "requested", "r"),
        ("EASY", "last2", "r"),
        ("EASY-SJBF", "last2", "r"),
        ("EASY-SJBF", "nag", "r"),
        ("recorded", "", ""),
    ]
    table = looks(keys)
    assert table[last2].colour == table[sjbf_last2].colour
    assert table[easy].marker == table[last2].marker != table[sjbf_last2].marker
    assert len({table[key].colour for key in (easy, last2, sjbf_nag, recorded)}) == 4
    assert table[recorded].label == "recorded"


def test_prior_takes_no_colour_from_the_predictors_that_learn():
    names = ["requested", "last2", "lightgbm", "quantile", "registry:runtime-x"]
    made = looks(
        [*(("EASY", name, "requested") for name in names), ("Harm", "prior", "requested"), ("Harm", "quantile", "requested")]
    )
    colours = {name: made["EASY", name, "requested"].colour for name in names}
    assert len({*colours.values(), made["Harm", "prior", "requested"].colour}) == 6
    assert made["Harm", "quantile", "requested"].colour == colours["quantile"]


def test_where_schedulers_outnumber_predictors_colours_tell_schedulers():
    keys = [(scheduler, predictor, "r") for scheduler in ("EASY", "EASY-SJBF", "List") for predictor in ("requested", "last2")]
    table = looks(keys)
    assert len({look.colour for look in table.values()}) == 3
    assert table[keys[0]].colour == table[keys[1]].colour
    assert table[keys[0]].marker == table[keys[2]].marker != table[keys[1]].marker


def test_no_correction_is_told_of_a_scheduler_that_takes_none(schedules):
    last2 = schedules[1]
    made = [schedules[0], last2, replace(last2, scheduler="Harm")]
    table = metric_table(compare(made), looks(map(key, made)), (*BASELINE, "requested"))
    assert [row[0].below for row in table.cells] == [(), ((f"correction: {last2.correction}", ""),), ()]


def test_a_correction_is_named_where_it_tells_two_combinations_apart():
    keys = [("EASY", "last2", "requested"), ("EASY", "last2", "tsafrir"), ("EASY", "nag", "requested")]
    assert [look.label for look in looks(keys).values()] == ["EASY / last2 / requested", "EASY / last2 / tsafrir", "EASY / nag"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        pytest.param([schedule_of([0], [0], [5], [1])], id="one job that never waits"),
        pytest.param([schedule_of([0, 9], [0, 0], [5, 5], [1, 1], user=[None, None])], id="no users and no waits"),
        pytest.param(schedules_of(weeks=1, jobs=5), id="one week"),
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
        ),
    ],
)
def test_extreme_comparisons_are_drawn_without_a_warning(made):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = page_of(made, quality=pd.DataFrame(columns=list(predictions_of(made))), cleaning_counts=pd.Series(dtype="int64"))
    text = Page(page).text
    assert "No predictions were measured." in text
    assert "No job was dropped or altered." in text
    assert ("Not drawn as curves" in text) == (len(made) > 6)
    assert ("The trace names no users." in text) == made[0].jobs["user"].isna().all()


@pytest.mark.slow
def test_a_metric_without_words_is_refused(schedules):
    comparison = compare(schedules, metrics=(*COMPARED, "corrections"))
    assert "How often an outlived prediction was replaced." in page_of(schedules, comparison=comparison)
    with pytest.raises(InputError, match="no text for the metrics repairs"):
        page_of(schedules, comparison=comparison.replace({"metric": {"corrections": "repairs"}}))


def test_a_report_that_cannot_be_written_leaves_the_last_one(tmp_path, monkeypatch):
    path = tmp_path / "sub" / "report.html"
    write_report(path, "first")
    assert path.read_text() == "first"
    with pytest.raises(UnicodeEncodeError):
        write_report(path, "second \ud800")
    assert path.read_text() == "first"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.slow
@needs_shared
@pytest.mark.usefixtures("undrawn")
def test_kth_sp2_is_drawn_with_everything_in_place():
    made = [
        reference("kth-sp2", "easy_requested"),
        replace(reference("kth-sp2", "sjbf_last2_tsafrir"), scheduler="EASY-SJBF", predictor="last2", correction="tsafrir"),
    ]
    text = Page(page_of(made, trace="kth-sp2")).text
    for shown in ("28,481", "92.58", "63.50", "−31.4 %", "75,546", "140,658", "+47.2 %", "49 weeks", "EASY-SJBF / last2"):
        assert shown in text


def test_a_tie_for_the_lowest_slowdown_is_called_one(schedules):
    base, other = schedules[0], schedules[1]
    twin = replace(other, scheduler="LCFS")
    said = summary(compare([base, other, twin]), BASELINE, 0.95)[0]
    assert f"a tie with LCFS / {other.predictor}" in said or f"a tie with {other.label}" in said
    assert "one replay" in said
    assert "a tie" not in summary(compare([base, other]), BASELINE, 0.95)[0]


@pytest.mark.usefixtures("undrawn")
def test_where_nothing_waits_the_page_says_that_the_comparison_says_nothing(schedules):
    started = [replace(each, jobs=each.jobs.assign(start_s=each.jobs["submit_s"])) for each in schedules]
    assert nothing_waited(compare(schedules), 64) == ""
    said = nothing_waited(compare(started), 64)
    assert said.startswith("Nothing waits here: mean waits are at most 0.0 s, and ")
    assert said.endswith(
        "of 64 processors are used at most; this comparison says nothing about schedulers or predictors: check --procs."
    )
    text = Page(page_of(started)).text
    assert "Nothing waits here" in text
    assert "Not modelled: partitions, nodes, memory and GPUs" in text


@pytest.mark.slow
def test_the_page_says_which_predictor_is_registered_and_from_when_on_jobs_are_judged(schedules) -> None:
    names = dict.fromkeys(each.predictor for each in schedules)
    kinds = {name: "registered, as served" if name == "last2" else "learns in the simulator" for name in names}
    text = page_of(schedules, kinds=kinds, since="1997-05-01")
    assert "on the jobs submitted from 1997-05-01 on" in text
    row, by_experience = re.findall(r"<tr><th>last2</th>.*?</tr>", text)
    for words in ("registered, as served", "50.0 % [40.0, 60.0]", "81.0 %", "1,234"):
        assert words in row
    assert "runtimes within its 80% quantile" in text
    assert "30.0 % of 120 jobs" in by_experience
    metrics = text[text.index('id="metrics"') : text.index('id="fairness"')]
    assert metrics.count("<small>registered, as served</small>") == sum(each.predictor == "last2" for each in schedules) > 0


@pytest.mark.parametrize("image", ["svg", "png"])
def test_a_picture_is_laid_out_and_then_drawn_once(image, monkeypatch):
    drawn, draw = [], Axes.draw
    monkeypatch.setattr(Axes, "draw", lambda axes, renderer: drawn.append(axes.get_position().bounds) or draw(axes, renderer))
    with figure(4, 3, generated=False) as drawing:
        axes = drawing.subplots()
        axes.set_ylabel("a label that takes room")
        before = axes.get_position().bounds
        assert encode(drawing, image)
    assert len(drawn) == 1
    assert drawn[0][0] != before[0]
