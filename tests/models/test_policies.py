"""Policies as JSON: written and read whole; whatever is wrong is told in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from features.errors import InputError
from models.policies import ARITHMETIC, Feature, PolicyEvidence, PolicyFile, Trained, dumps, loads

LEARNED = PolicyFile(
    "kth-sp2",
    "r**a*n",
    {"a": 2.0},
    {"n": Feature("processors", "processors of the job"), "r": Feature("s", "estimated runtime")},
    starvation_s=200_000,
    predictor="last2",
    trained=Trained("kth-sp2", (1, 2, 3), "sum of weekly means", 60.0, 7, 1000, "0123456789abcdef"),
    evidence=PolicyEvidence("SAF-EASY-SPF", -0.12, -0.2, -0.05, (4, 5), 30, max_wait_s=9e5, baseline_max_wait_s=1e6),
    made_by="queuecast 0.1.0",
)
STATED = json.loads(dumps(LEARNED))


def test_a_policy_is_read_as_it_was_written() -> None:
    assert loads(dumps(LEARNED), "f") == LEARNED
    assert LEARNED.score == "r**a*n;a=2.0"
    bare = PolicyFile("area", "r*n")
    assert loads(dumps(bare), "f") == bare
    assert loads('{"format": 1, "name": "area", "formula": "r*n"}', "f") == bare
    assert (STATED["format"], STATED["order"], STATED["arithmetic"]) == (1, "smallest first", ARITHMETIC)


def test_only_an_interval_below_zero_speaks_for_a_policy() -> None:
    assert LEARNED.evidence is not None
    assert LEARNED.evidence.clear
    assert not replace(LEARNED.evidence, high=0.01).clear


EVIDENCE, TRAINED = STATED["evidence"], STATED["trained"]
GONE = object()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"format": 2}, "f.json: has format 2: this Queuecast reads policies of format 1"),
        ({"format": True}, "has format True"),
        ({"format": GONE}, "states no format"),
        ({"order": "largest first"}, "order must be 'smallest first', not 'largest first'"),
        ({"arithmetic": 3}, "arithmetic must be a string"),
        ({"name": "../kth"}, "name: '../kth' is not a name"),
        ({"name": GONE}, "name is missing"),
        ({"formula": GONE}, "formula is missing"),
        ({"formula": 3}, "formula must be a string, not 3"),
        ({"formula": " "}, "formula must be one such as r"),
        ({"formula": "r;a=2"}, "state parameters in a table of their own"),
        ({"formula": "r\x1b[2J"}, r"formula must be one such as r\*n"),
        ({"parameters": [2]}, "parameters must be a table"),
        ({"parameters": {"a": "2"}}, "parameters.a must be a number, not '2'"),
        ({"parameters": {"a": True}}, "parameters.a must be a number, not True"),
        ({"parameters": {"a": 10**400}}, "parameters.a must be a"),
        ({"parameters": {"A b": 1}}, "parameters.A b is not a name"),
        ({"parameters": {f"a{i}": 1 for i in range(1001)}}, "has 1,001 parameters"),
        ({"features": ["n"]}, "features must be a table"),
        ({"features": {"n": {"unit": "s"}}}, "features.n: meaning is missing"),
        ({"features": {"n": {"unit": "s", "meaning": "", "scale": 2}}}, "features.n: scale is unknown; known: unit, meaning"),
        ({"backfill": None}, "backfill must be a string"),
        ({"starvation_s": -1}, "starvation_s must be 0 to"),
        ({"starvation_s": 1.5}, "starvation_s must be a whole number"),
        ({"trained": [1]}, "trained: must be a table"),
        ({"trained": {"trace": "kth", "weeks": [1]}}, "trained: objective is missing"),
        ({"trained": {**TRAINED, "weeks": ["1"]}}, "trained: weeks.0 must be a whole number"),
        ({"trained": {**TRAINED, "trace": "/etc"}}, "trained.trace: '/etc' is not a name"),
        ({"trained": {**TRAINED, "weeks": [-1]}}, "trained.weeks must be numbers of weeks, counted from 0"),
        ({"evidence": {**EVIDENCE, "low": 0.5}}, "evidence.relative -0.12 is not between low and high"),
        ({"evidence": {**EVIDENCE, "relative": "-10 %"}}, "evidence: relative must be a number"),
        ({"script": "rm"}, "'script' is unknown; known: format, order"),
    ],
)
def test_a_wrong_value_is_told_by_its_key(changes: dict[str, Any], error: str) -> None:
    text = json.dumps({key: value for key, value in {**STATED, **changes}.items() if value is not GONE})
    _refused(text, error)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is not JSON: line 1, column 1"),
        ("[]", "must be a table"),
        ('{"format": 1,', "is not JSON: line 1, column 1[0-9]"),
        ('{"format": 1, "format": 1}', "states 'format' 2 times"),
        ('{"format": NaN}', "NaN is not a finite number"),
        ('{"format": 1, "name": "a", "formula": "a*r", "parameters": {"a": 1e999}}', "parameters.a must be a finite number, not inf"),
        ('{"format": ' + "9" * 5000 + "}", "is not JSON"),
        ("[" * 100_000, "nested too deep"),
        (b"\xff\xfe\x00", "is not JSON"),
        (" " * (2 << 20), "has more than 1 MiB"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_told_with_its_place(text: str | bytes, error: str) -> None:
    _refused(text, error)


def _refused(text: str | bytes, error: str) -> None:
    with pytest.raises(InputError, match=error) as refusal:
        loads(text, "f.json")
    assert str(refusal.value).startswith("f.json: ")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) <= 300
