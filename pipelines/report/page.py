"""Pages and figures in one style: the answer, a picture and eight rows come first.

Everything else is folded below, by topic; all pages have one template, ``page.html.j2``. Values are inserted as
text, never as markup, and characters that would change the direction of writing are shown. A page also forbids itself
to run scripts and to load anything.

A combination of scheduler and predictor has the same colour and mark in every figure. Colours are Okabe & Ito's (2008),
distinct under every common kind of colour blindness. Figures are built from matplotlib's objects alone, without pyplot
and its global state, and are byte for byte the same for the same input.
"""

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jinja2
import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter

from features.errors import printable
from pipelines.report.table import Table
from sim.metrics.verdict import combinations

ImageFormat = Literal["png", "svg"]
Key = tuple[str, str, str]
"""(scheduler, predictor, correction)"""

INK = "#1f2933"
MUTED = "#6b7785"
GRID = "#e4e8ec"
RECORDED = "#8a939d"
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, SKY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # a name with dollars is no formula
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "queuecast",
}
_DPI = 160

DURATIONS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 21_600: "6 h", 86_400: "1 d", 604_800: "1 wk"}
"""Ticks of logarithmic axes of time, by seconds."""


@dataclass(frozen=True)
class SeriesStyle:
    """The look of one combination in all figures."""

    label: str
    colour: str
    marker: str


Looks = Mapping[Key, SeriesStyle]


def looks(keys: Iterable[Key]) -> Looks:
    """Return a look for each combination: colours for predictors, marks for schedulers.

    It is the other way round if there are more schedulers. A label names the correction only if another one differs
    only in that.
    """
    unique = list(dict.fromkeys(keys))
    pairs, labels = [key[:2] for key in unique], combinations(unique)
    schedulers = list(dict.fromkeys(scheduler for scheduler, predictor in pairs if predictor))
    predictors = list(dict.fromkeys(predictor for _, predictor in pairs if predictor))
    by_predictor = len(predictors) >= len(schedulers)
    coloured, marked = (predictors, schedulers) if by_predictor else (schedulers, predictors)
    colours = _colours(coloured)
    table: dict[Key, SeriesStyle] = {}
    for scheduler, predictor, correction in unique:
        label = labels[scheduler, predictor, correction]
        if not predictor:
            table[scheduler, predictor, correction] = SeriesStyle(label, RECORDED, "*")
            continue
        colour = colours[predictor if by_predictor else scheduler]
        rank = marked.index(scheduler if by_predictor else predictor)
        table[scheduler, predictor, correction] = SeriesStyle(label, colour, _MARKERS[rank % len(_MARKERS)])
    return table


def _colours(names: list[str]) -> dict[str, str]:
    """Return ink for the first, orange for clairvoyant, the palette in turn for the others.

    ``prior`` is grey: it knows what requests tell.
    """
    fixed = {"clairvoyant": ORANGE, "prior": MUTED}
    others = [name for name in names[1:] if name not in fixed]
    table = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(others)} | fixed
    return table | {names[0]: INK} if names else {}


class _Drawing(Figure):
    """A figure that is drawn once: with a layout engine, ``draw`` only computes the layout.

    Notebooks show it as PNG.
    """

    def _repr_png_(self) -> bytes:
        return encode(self, "png")

    def draw(self, renderer: RendererBase) -> None:
        engine = self.get_layout_engine()
        if isinstance(engine, ConstrainedLayoutEngine):
            engine.execute(self)
        else:
            super().draw(renderer)


@contextmanager
def figure(width: float, height: float, generated: bool) -> Iterator[Figure]:
    """Yield a figure in the common look, in inches; if ``generated``, a corner says so."""
    with mpl.rc_context(_RC):
        layout = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - 0.22 / height if generated else 1))
        drawing = _Drawing(figsize=(width, height), layout=layout, facecolor="white")
        FigureCanvasAgg(drawing)
        if generated:
            drawing.text(0.997, 0.995, "generated workload", ha="right", va="top", fontsize=8.5, fontweight="bold", color=VERMILION)
        yield drawing


def encode(drawing: Figure, image: ImageFormat) -> bytes:
    """Return the figure as PNG or SVG, without a date."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if image == "svg" else {"Software": None}
    with mpl.rc_context(_RC):
        _make_printable(drawing)
        drawing.savefig(buffer, format=image, dpi=_DPI, metadata=metadata)
    return buffer.getvalue()


def _make_printable(drawing: Figure) -> None:
    """Show control characters in all texts as escapes; no drawing may contain them."""
    for text in drawing.findobj(Text):
        text.set_text(printable(text.get_text()))
    for axis in (axis for axes in drawing.axes for axis in (axes.xaxis, axes.yaxis)):
        if isinstance(form := axis.get_major_formatter(), FuncFormatter):  # names of ticks are looked up when they are drawn
            axis.set_major_formatter(FuncFormatter(lambda value, place, label=form.func: printable(label(value, place))))


def rows_named(panel: Axes, names: Sequence[str]) -> None:
    """Name the rows of a panel, the first of them on top."""
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(max(len(names), 1) - 0.4, -0.6)


def log_durations(axis: mpl.axis.Axis, longest_s: float, shortest_s: float = 1.0) -> None:
    """Set ticks of a logarithmic axis of seconds in common units."""
    axis.set_ticks([tick for tick in DURATIONS if shortest_s <= tick <= longest_s])
    axis.set_major_formatter(FuncFormatter(lambda seconds, _: DURATIONS.get(round(seconds), "")))
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))


MOST_ROWS = 8
"""Max number of rows of the table that is read first; a file beside the page has all rows."""


class Picture(NamedTuple):
    """A picture as a data URI, with a caption."""

    image: str
    caption: str


@dataclass(frozen=True)
class Front:
    """The part read first: one to three sentences, a picture, at most eight rows.

    ``hint`` explains the rows; ``data`` is the file beside the page with all rows, ``facts`` are numbers with words. If
    jobs were generated, ``generated`` names the part that they test. ``warnings`` are on top; ``notes``, ``provenance``
    folded at the end.
    """

    title: str
    answer: Sequence[str]
    table: Table
    hint: str
    picture: Picture | None = None
    data: str = ""
    generated: str = ""
    warnings: Sequence[str] = ()
    facts: Sequence[tuple[object, str]] = ()
    notes: Sequence[str] = ()
    provenance: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.table.rows) > MOST_ROWS or len(self.answer) > 3:
            raise ValueError(f"{len(self.table.rows)} rows and {len(self.answer)} sentences are too many to be read first")


Part = str | Table | Picture | Mapping[str, str] | tuple[str, str]
"""What stands below a fold: a remark, a table, a picture, terms with their meanings, or a sentence with lines as they
stand."""
Fold = tuple[str, Sequence[Part | None]]
"""A topic, and its parts; without any it is left out."""


def render(front: Front, folds: Sequence[Fold]) -> str:
    """Return a self-contained page: what is read first, and the rest, folded by topic."""
    provenance = {
        label: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for label, value in front.provenance.items()
    }
    last: list[Fold] = [("Notes", front.notes)]
    last.append(("Provenance: data, code, parameters and seed of every number above", [provenance] if provenance else []))
    shown = [(title, [part for part in parts if part is not None]) for title, parts in (*folds, *last)]
    return _template().render(front=front, folds=shown)


@cache
def _template() -> jinja2.Template:
    """Return the template of all pages, compiled once in a process; a missing variable is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _shown(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def data_uri(drawing: Figure) -> str:
    """Return a figure, drawn as SVG, as a data URI."""
    return f"data:image/svg+xml;base64,{base64.b64encode(encode(drawing, 'svg')).decode()}"
