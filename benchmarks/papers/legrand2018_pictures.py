"""The pictures of :mod:`benchmarks.papers.legrand2018`, and the data behind them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pandas as pd
from PIL import Image

from benchmarks.papers.legrand2018 import SOURCES, Studies
from pipelines.report import campaign_plots, policies_plots
from pipelines.report.style import figure
from sim.search.claims import recorded
from sim.search.pure import BASELINE, PURE
from sim.search.study import FEATURES
from sim.search.transfer import RECORDED, sums

PAPER_TAU = 10.0
"""What the paper states."""
_COLOURS = 128
"""Colours of a picture: half the bytes, and no difference to the eye."""


def pictures(studies: Studies) -> dict[str, bytes]:
    """Return every picture by its file's name, both traces one above the other."""
    drawn: dict[str, list[bytes]] = {}
    for name in SOURCES:
        study, by_month = studies[name]["weeks"], studies[name]["months"]
        replays, settings = study.tables.replays, study.settings
        unit = f"week of {SOURCES[name].title}"
        pure = {f"{tau_s:g}": recorded(replays, tau_s)[list(PURE)] for tau_s in settings.taus_s}
        transfer = sums(replays, settings.split, seed=settings.seed)
        for kind, image in (
            ("pure", campaign_plots.boxes({float(tau): table for tau, table in pure.items()}, BASELINE, False, "png")),
            ("pure", policies_plots.best_pure(replays, PAPER_TAU, unit, False, "png")),
            ("transfer", policies_plots.sums(transfer, False, "png")),
            ("weeks", policies_plots.by_window(replays, PAPER_TAU, settings.split, unit, False, image="png")),
            ("search", policies_plots.optimised(replays, PAPER_TAU, unit, False, "png")),
            ("landscapes", policies_plots.landscapes(study.tables.landscapes, study.tables.chosen, PAPER_TAU, "weeks", False)),
            (
                "months",
                policies_plots.by_window(
                    by_month.tables.replays,
                    PAPER_TAU,
                    by_month.settings.split,
                    f"month of {SOURCES[name].title}",
                    False,
                    image="png",
                ),
            ),
        ):
            drawn.setdefault(kind, []).append(titled(SOURCES[name].title, image))
    return {f"legrand-2018-{kind}.png": stacked(images, _COLOURS) for kind, images in drawn.items()}


def titled(title: str, image: bytes) -> bytes:
    """Return a PNG with a line of text above it."""
    below = Image.open(io.BytesIO(image))
    with figure(below.width / 160, 0.3, generated=False) as drawing:
        drawing.subplots().set_axis_off()
        drawing.text(0.005, 0.5, title, fontsize=12, fontweight="bold", va="center")
        buffer = io.BytesIO()
        drawing.savefig(buffer, format="png", dpi=160)
    return stacked([buffer.getvalue(), image])


def stacked(images: Sequence[bytes], colours: int = 0) -> bytes:
    """Return PNGs one above the other as one, with so many ``colours`` at most; 0: all."""
    parts = [Image.open(io.BytesIO(image)).convert("RGB") for image in images]
    whole = Image.new("RGB", (max(part.width for part in parts), sum(part.height for part in parts)), "white")
    top = 0
    for part in parts:
        whole.paste(part, (0, top))
        top += part.height
    buffer = io.BytesIO()
    (whole.quantize(colours) if colours else whole).save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def weekly(studies: Studies) -> pd.DataFrame:
    """Return the data behind the pictures: every policy in every window as recorded, with the weights of what was chosen."""
    parts = []
    for name, units in studies.items():
        for unit, study in units.items():
            rows = study.tables.replays[study.tables.replays["seed"] == RECORDED].drop(columns="seed")
            rows = rows.merge(study.tables.chosen, on=["week", "policy", "tau_s"], how="left")
            parts.append(rows.assign(trace=SOURCES[name].title, unit=unit))
    columns = ["trace", "unit", "week", "policy", "tau_s", "mean_bounded_slowdown", "max_wait_s", *FEATURES, "equal"]
    return pd.concat(parts)[columns].astype({"equal": "Int64"})
