"""The page of predicted starts shows the figures of its table, and says what is missing."""

from __future__ import annotations

import html
import re

import numpy as np
import pandas as pd

from models.packed.start_distribution import CHANCES_S, LEVELS
from models.packed.start_predictor import CHANCES, QUANTILES
from pipelines.report.starts import bins, judged, months, quality, render_starts

_DAY_S = 86_400


def answers(count: int = 400, seed: int = 0) -> pd.DataFrame:
    """Return answers that are right of waits drawn from what they tell."""
    draw = np.random.default_rng(seed)
    scale, room = np.exp(draw.uniform(6.0, 10.0, count)), draw.random(count) < 0.4
    waited = np.where(room, 0.0, np.maximum(scale * draw.exponential(size=count), 61.0))
    at = np.sort(draw.integers(0, 90 * _DAY_S, count))
    quantiles = {name: np.where(room, 0.0, -scale * np.log1p(-level)) for name, level in zip(QUANTILES, LEVELS, strict=True)}
    chances = {
        name: np.where(room, 1.0, 1.0 - np.exp(-wait / scale)) for name, wait in zip(CHANCES, CHANCES_S.values(), strict=True)
    }
    place = np.where(room, np.nan, 1.0 - np.exp(-waited / scale))
    head = {"job_id": np.arange(1000, 1000 + count), "at_s": at, "user": "user3", "age_s": 0, "version": 3, "method": "hazard"}
    table = pd.DataFrame(
        {**head, "waited_s": waited, "fits": room, "plan_s": 2.0 * scale, **quantiles, **chances, "place": place, "score": 0.9}
    )
    return table


def shown(page: str) -> str:
    """Return the text of a page, in single spaces."""
    text = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def test_the_page_says_what_its_table_says() -> None:
    table = answers()
    judgements, page = judged(table), shown(render_starts(table, {"seed": 0}, "KTH-SP2", generated=True))
    waits = table[table["waited_s"] > 60]
    held = (np.abs(waits["place"] - 0.5) <= 0.4).mean()
    assert f"Of {len(waits):,} answers about jobs that waited over a minute, {100 * held:.0f} % of the 80 % intervals held." in page
    assert "KTH-SP2: when jobs start" in page
    assert "Generated workload" in page
    row = quality(judgements).rows[0]
    median = np.median(np.abs(table["wait_50_s"] - table["waited_s"]))
    assert f"told median was off by {row[2]} (median), the plan by {row[3]}" in page
    assert str(row[2]) == f"{median / 60:,.1f} min"


def test_bins_and_months_count_each_answer_once() -> None:
    judgements = judged(answers())
    table = bins(judgements)
    assert table["answers"].sum() == len(judgements)
    assert (table["answers"] * table["came"]).sum() == (judgements["waited_s"] <= 3_600).sum()
    every, *by_month = [int(str(row[1])) for row in months(judgements).rows]
    assert every == sum(by_month) == judgements["waits"].sum()
    assert len(by_month) == 3
