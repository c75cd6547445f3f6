"""The site of `make docs`: pages in Markdown, and references made from commands, settings and docstrings."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "Queuecast"
copyright = "the Queuecast authors, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
exclude_patterns = ["examples"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
"""Headings have the anchors that GitHub gives them, so that one link works on both."""

highlight_language = "sh"
"""Most blocks are commands: a block of Python or SQL says so."""

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True}

html_theme = "pydata_sphinx_theme"
html_title = "Queuecast"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "show_prev_next": False,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}


class SettingsTable(SphinxDirective):
    """Show the fields that a class of settings adds: name, option, default and explanation."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].rpartition(".")
        settings_class = getattr(import_module(module), name)
        rows = ["| setting | option | default | meaning |", "| --- | --- | --- | --- |"]
        for field in settings_class.__annotations__:
            settings = settings_class.model_fields[field]
            defaults = settings.default if isinstance(settings.default, tuple) else (settings.default,)
            default = ", ".join(f"`{value}`" for value in defaults if value not in (None, ""))
            option = f"`--{settings.title or field.replace('_', '-')}`"
            cells = [f"`{field}`", option, default, settings.description or ""]
            rows.append("| " + " | ".join(re.sub(r"[|\[]", r"\\\g<0>", cell) for cell in cells) + " |")
        return self.parse_text_to_nodes("\n".join(rows))


def plain(_: Sphinx, context: object, lines: list[str]) -> None:
    """Escape what help texts mean literally and reStructuredText would read as markup."""
    for number, line in enumerate(lines):
        start = "| " if line.startswith("| ") else ""  # a line of a block that keeps its breaks
        lines[number] = start + re.sub(r"[|*`]", r"\\\g<0>", line.removeprefix(start))


def setup(app: Sphinx) -> None:
    """Add the directive ``settings``, and mend help texts."""
    app.add_directive("settings", SettingsTable)
    for part in ("description", "epilog"):
        app.connect(f"sphinx-click-process-{part}", plain)
