"""Numbers of a page's answer, for tests that each of them stands in what is below it."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d[\d,]*\.\d+")
"""Measured values have a decimal point; counts of combinations and replays have none."""


def numbers_from_nowhere(page: str) -> set[str]:
    """Return the numbers of the answer of a page that stand nowhere else on it."""
    answer = re.search(r'<section class="summary">(.*?)</section>', page, re.DOTALL)
    assert answer is not None
    rest = page[: answer.start()] + page[answer.end() :]
    below = set(_NUMBER.findall(re.sub(r'src="[^"]*"|<style>.*?</style>', "", rest, flags=re.DOTALL)))
    return set(_NUMBER.findall(answer[1])) - below
