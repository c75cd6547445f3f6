"""The page of a campaign: all results and omissions, self-contained."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd
import pytest

from pipelines.report.campaign import render_campaign
from sim import Campaign, run_campaign, split_windows
from sim.campaigns.window_comparison import over_windows
from sim.campaigns.windows import Windows
from sim.metrics.formats import change
from tests.sim.campaigns.test_campaign import JOBS, WIDTH
from tests.support.answers import numbers_from_nowhere
from tests.support.pictures import undrawn


def results(asked: Campaign, split: str = "weeks", generated: bool = False) -> tuple[pd.DataFrame, Windows]:
    windows = split_windows(JOBS, split)
    return run_campaign(JOBS, asked, procs=WIDTH, windows=windows, trace="<toy>", generated=generated), windows


def page_of(table: pd.DataFrame, windows: Windows) -> str:
    return render_campaign(
        table, over_windows(table), windows, {"jobs": "0123abcd", "seeds": [0]}, notes=["a note & more"], data="c.csv"
    )


@pytest.fixture
def drawn_empty() -> Iterator[None]:
    """Leave pictures empty, for tests that read the words of a page."""
    with undrawn():
        yield


def text(html: str) -> str:
    return " ".join(re.sub(r"<.*?>", " ", html).split())


def tables(page: str) -> list[dict[str, list[str]]]:
    """Texts of the cells of each table, by scheduler."""
    cells = []
    for body in re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL):
        rows = re.findall(r"<tr class=\"\w*\"><th>(.*?)</th>(.*?)</tr>", body, re.DOTALL)
        cells.append(
            {text(name).split(" / ")[0]: list(map(text, re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL))) for name, row in rows}
        )
    return cells


@pytest.mark.usefixtures("drawn_empty")
def test_the_page_prints_means_and_changes_lowest_slowdown_first_for_each_tau() -> None:
    table, windows = results(Campaign(schedulers=("Strict", "EASY", "SAF-EASY-SPF"), taus_s=(10.0, 60.0)))
    page = page_of(table, windows)
    first, second, *_ = tables(page)
    for printed, tau_s in ((first, 10.0), (second, 60.0)):
        means = table[table["tau_s"] == tau_s].groupby("scheduler")["mean_bounded_slowdown"].mean().sort_values()
        assert list(printed) == ["Strict", *(f"{name}" for name in means.index if name != "Strict")]
        for name, mean in means.items():
            changed = "" if name == "Strict" else f" {change(mean / means['Strict'] - 1)}"
            assert printed[name][0].startswith(f"{mean:,.2f}{changed}")
    assert numbers_from_nowhere(page) == set()
    assert "1 rule leaves jobs out of all windows" in page
    assert re.search(r"first-window.*?60</div></td>", page, re.DOTALL)
    assert "&lt;toy&gt;" in page
    assert "a note &amp; more" in page
    assert "Generated workload" not in page
