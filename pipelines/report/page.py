"""Shared parts of the report pages: templates with one style, and embedded pictures.

What data say is text on them, never markup, and marks that would change the direction of writing are shown. Beyond that, a page forbids
itself (``base.html.j2``) to run scripts and to load anything.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from features.errors import printable


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


def stated(provenance: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return names and texts of ``provenance``, in its order."""
    plain = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in provenance.items()
    }
    return list(plain.items())


def data_uri(image: bytes, kind: str = "svg+xml") -> str:
    """Return a picture, SVG or ``png``, as the address of an image."""
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
