"""No script survives in a page, and no order to a terminal; see :mod:`tests.campaigns.pages`."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.report import page
from tests.campaigns import pages


def test_hostile_texts_stay_texts_everywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "browser", lambda: None)
    counts = pages.campaign(30, 0, tmp_path)
    assert counts.findings == []
    assert counts.attempts == 30


ATTACKS = (
    "<script>1</script>",
    '<p onclick="1">',
    '<a href="javascript:1">x</a>',
    '<img src="http://evil.example/x">',
    "<!-- x -->",
    "\x1b[2J",
    "\u202e",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_survivor_would_be_found(attack):
    sound = pages.poisoned("nights.html.j2", np.random.default_rng(0))
    assert pages.Survey(sound, trusted=False).faults == []
    assert pages.Survey(sound.replace("</main>", f"{attack}</main>")).faults
    assert "no content security policy" in pages.Survey(sound.replace("default-src", "x")).faults


def test_without_escaping_the_campaign_finds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "browser", lambda: None)
    real = page.jinja2.Environment
    monkeypatch.setattr(page.jinja2, "Environment", lambda **given: real(**given | {"autoescape": False}))
    page._environment.cache_clear()
    try:
        assert pages.campaign(7, 0, tmp_path).findings
    finally:
        page._environment.cache_clear()


def test_faults_of_drawings_terminals_and_markdown_are_found():
    assert pages.svg_faults(b"<svg><script/></svg>")
    assert pages.svg_faults(b'<svg onload="1"/>')
    assert pages.svg_faults(b'<svg><a href="http://evil.example"/></svg>')
    assert pages.terminal_faults("a\x1b]0;title\x07")
    assert not pages.terminal_faults("\x1b[1;31mred\x1b[0m")
    for text in ("| <b> |", "| [x](y) |", "| `x` |", "| a |\n| a | b |"):
        assert pages.markdown_faults(text)


@pytest.mark.slow
@pytest.mark.skipif(pages.browser() is None, reason="no browser here")
def test_a_browser_runs_nothing_and_would_be_seen_to(tmp_path):
    rng = np.random.default_rng(1)
    hostile = pages.poisoned("night.html.j2", rng)
    assert pages.runs_in(pages.browser(), hostile, tmp_path) == []
    survivor = hostile.replace("</main>", f"<script>{pages._SCRIPT}</script></main>")
    assert pages.runs_in(pages.browser(), survivor, tmp_path) == []  # the page's policy forbids it
    unguarded = survivor.replace("default-src", "x")
    assert pages.runs_in(pages.browser(), unguarded, tmp_path) == ["a script ran in the browser"]
