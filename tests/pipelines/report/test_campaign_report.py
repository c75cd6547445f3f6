"""The page of a campaign: all results and omissions, self-contained."""

from __future__ import annotations

import base64
import re

import numpy as np
import pandas as pd
import pytest

from pipelines.report import campaign_plots
from pipelines.report.campaign import render_campaign
from sim import Campaign, run_campaign, split_windows
from sim.campaigns.window_comparison import over_windows
from sim.campaigns.windows import Windows
from tests.sim.campaigns.test_campaign import JOBS, WIDTH

MANY = tuple(f"MIXED({round(angle, 2)},1,0)-List" for angle in np.linspace(0, 1, 45))


def results(asked: Campaign, split: str = "weeks", generated: bool = False) -> tuple[pd.DataFrame, Windows]:
    windows = split_windows(JOBS, split)
    return run_campaign(JOBS, asked, procs=WIDTH, windows=windows, trace="<toy>", generated=generated), windows


def page_of(table: pd.DataFrame, windows: Windows) -> str:
    return render_campaign(table, over_windows(table), windows, {"jobs": "0123abcd", "seeds": [0]}, notes=["a note & more"])


def cells(page: str) -> dict[str, list[str]]:
    """Texts of the cells of the first table, by policy."""
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    rows = re.findall(r"<tr class=\"\w*\"><th>(.*?)</th>(.*?)</tr>", body, re.DOTALL)
    return {
        name: [" ".join(re.sub(r"<.*?>", " ", cell).split()) for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)]
        for name, row in rows
    }


@pytest.mark.slow
def test_the_table_prints_means_ratios_and_ranks_best_first_for_each_tau() -> None:
    table, windows = results(Campaign(schedulers=("Strict", "EASY", "SAF-EASY-SPF"), taus_s=(10.0, 60.0)))
    page = page_of(table, windows)
    printed = cells(page)
    for place, tau_s in enumerate((10.0, 60.0)):
        means = table[table["tau_s"] == tau_s].groupby("scheduler")["mean_bounded_slowdown"].mean().sort_values()
        if place == 0:
            assert list(printed) == list(means.index)
        for rank, (name, mean) in enumerate(means.items(), 1):
            assert printed[name][place].startswith(f"{mean:,.2f} ")
            assert printed[name][place].endswith(f" rank {rank}")
            assert (f"× {mean / means['Strict']:.2f} [" in printed[name][place]) == (name != "Strict")
    assert "1 rule leaves jobs out of all windows" in page
    assert re.search(r"first-window.*?60</td>", page, re.DOTALL)
    assert "&lt;toy&gt;" in page
    assert "a note &amp; more" in page
    assert "Generated workload" not in page


@pytest.mark.slow
def test_the_baseline_is_on_the_page_however_bad_it_is_and_who_is_not_is_counted() -> None:
    table, windows = results(Campaign(schedulers=("Strict", *MANY)))
    page = page_of(table, windows)
    assert "5 more policies are in the results and not on this page" in page
    assert len(cells(page)) == 41
    assert "Strict" in cells(page)


def test_one_window_has_no_figures_and_claims_no_intervals() -> None:
    table, windows = results(Campaign(schedulers=("Strict", "EASY")), "whole", generated=True)
    page = page_of(table, windows)
    assert "data:image" not in page
    assert "confidence interval" not in page
    assert "No interval: 1 window is too few." in page
    assert "Generated workload" in page
    assert page.count("generated workload") == 1  # the footer
    assert "Not modelled: partitions, nodes, memory and GPUs. Jobs run on one pool" in page
    assert "Jobs run on the clusters of the machine site." in page_of(table.assign(machine="site"), windows)


@pytest.mark.slow
@pytest.mark.parametrize("predictors", [("requested",), ("requested", "last2")])
def test_the_page_needs_nothing_outside_itself_and_is_the_same_twice(predictors: tuple[str, ...]) -> None:
    table, windows = results(Campaign(schedulers=("EASY", "EASY-SJBF"), predictors=predictors, taus_s=(10.0, 20.0, 60.0)))
    page = page_of(table, windows)
    assert page == page_of(table, windows)
    sources = re.findall(r'src="(.*?)"', page)
    assert len(sources) == 2
    assert all(base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).startswith(b"<?xml") for source in sources)
    assert not re.search(r'href="|url\(', page)


@pytest.mark.slow
def test_a_generated_workload_is_named_in_its_figures() -> None:
    values = pd.DataFrame({"a": [1.0, 2.0, 30.0], "b": [1.0, 3.0, 90.0]}, index=[1, 2, 5])
    for generated, other in ((True, False), (False, True)):
        assert campaign_plots.boxes({10.0: values}, "a", generated) != campaign_plots.boxes({10.0: values}, "a", other)
        assert campaign_plots.by_window(values, "a", "week", generated) != campaign_plots.by_window(values, "a", "week", other)


def test_ties_are_called_ties_and_not_wins() -> None:
    table, windows = results(Campaign(schedulers=("EASY", "FCFS-EASY-FCFS", "Strict")))
    page = page_of(table, windows)
    assert " alone is the best in 0 of " in page
    assert ", a tie with 1 other" in page
    printed = cells(page)
    assert [printed[name][0].rsplit("rank ", 1)[1] for name in ("EASY", "FCFS-EASY-FCFS", "Strict")] == ["1 =", "1 =", "3"]


@pytest.mark.slow
def test_a_change_has_a_colour_only_where_it_is_sure() -> None:
    asked = Campaign(schedulers=("Strict", "SAF-EASY-SPF"))
    table, windows = results(asked)
    summary = over_windows(table)
    low = summary["low"].where(summary["scheduler"] == "Strict", 0.5)
    surely = summary.assign(low=low, high=summary["high"].where(summary["scheduler"] == "Strict", 0.6))
    toned = ['class="better"' in render_campaign(table, surely.assign(sure=sure), windows, {}) for sure in (False, True)]
    assert toned == [False, True]
    assert not summary["sure"].any()  # one replay shows nothing of chaos


@pytest.mark.slow
def test_a_machine_on_which_nothing_waits_is_said_to_say_nothing() -> None:
    windows = split_windows(JOBS, "weeks")
    table = run_campaign(JOBS, Campaign(schedulers=("EASY", "Strict")), procs=100_000, windows=windows)
    assert "Nothing waits here: mean waits are at most 0.0 s" in page_of(table, windows)
    table, windows = results(Campaign(schedulers=("EASY", "Strict")))
    assert "Nothing waits" not in page_of(table, windows)
