"""Shared parts of the report pages: templates with one style, and embedded pictures."""

from __future__ import annotations

import base64
from pathlib import Path

import jinja2


def template(name: str) -> jinja2.Template:
    """Return the template ``name`` beside this file; a missing variable is an error."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


def data_uri(image: bytes, kind: str = "svg+xml") -> str:
    """Return a picture, SVG or ``png``, as the address of an image."""
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
