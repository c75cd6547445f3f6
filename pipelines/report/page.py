"""Pages in one style, which show the answer, a picture and eight rows first.

Everything else is folded below, by topic, in the template of the page, which extends ``base.html.j2``. Values are inserted as
text, never as markup, and characters that would change the direction of writing are shown. A page also forbids itself
(``base.html.j2``) to run scripts and to load anything.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from features.errors import printable
from pipelines.report.style import encode
from pipelines.report.table import Table

MOST_ROWS = 8
"""Max number of rows of the table that is read first; a file beside the page has all rows."""


class Picture(NamedTuple):
    """A picture as a data URI, with a title and a caption."""

    title: str
    image: str
    caption: str = ""


@dataclass(frozen=True)
class Front:
    """The part read first: one to three sentences, a picture, at most eight rows.

    ``hint`` explains the rows; ``data`` is the file beside the page with all rows, ``facts`` are numbers with words. If jobs were
    generated, ``generated`` names the part that they test. ``warnings`` are on top; ``notes``, ``provenance`` folded at the end.
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


def render(name: str, front: Front, **below: object) -> str:
    """Return the self-contained page of the template ``name``; ``below`` goes to the template."""
    texts = {
        label: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for label, value in front.provenance.items()
    }
    return template(name).render(front=front, provenance=texts.items(), **below)


def template(name: str) -> jinja2.Template:
    """Return the template ``name`` beside this file; a missing variable is an error.

    It is compiled once in a process.
    """
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def data_uri(drawing: Figure) -> str:
    """Return a figure, drawn as SVG, as a data URI."""
    return f"data:image/svg+xml;base64,{base64.b64encode(encode(drawing, 'svg')).decode()}"
