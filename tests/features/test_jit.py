"""Compiled code is kept as long as nothing it is made of changes, and no longer."""

from pathlib import Path

import numba
import pytest
from filelock import FileLock, Timeout
from numba.core.caching import FunctionCache

from features.jit import apart, compiled_code, kernel, njit
from tests.support.process import python

HOUSE = Path(__file__).parents[2]

FILES = {
    "features/jit.py": "def njit(f):\n    return f\n",
    "features/limits.py": '"""Limits."""\nMOST = 3\n',
    "sim/loop.py": """"A loop."
from features.jit import njit
from features import limits

@njit
def go(x):
    "Go on."
    return x + limits.MOST
""",
    "sim/tables.py": "LEAST = 4\n",
}


def code(house: Path, **changed: str) -> str:
    for name, text in {**FILES, **{name.replace("__", "/") + ".py": text for name, text in changed.items()}}.items():
        (house / name).parent.mkdir(exist_ok=True)
        (house / name).write_text(text)
    return compiled_code(house, sorted(house.rglob("*.py")))


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"sim__loop": FILES["sim/loop.py"].replace("A loop", "The loop, in other words").replace("Go on", "Advance")}, True),
        ({"features__limits": FILES["features/limits.py"] + "\n\n# a comment\n"}, True),
        ({"sim__tables": "LEAST = 5\n"}, True),  # no compiled function can reach it
        ({"features__limits": FILES["features/limits.py"].replace("3", "4")}, False),
        ({"sim__loop": FILES["sim/loop.py"].replace("x +", "x -")}, False),
        ({"features__jit": "def njit(f):\n    return abs(f)\n"}, False),
    ],
)
def test_only_code_that_compiled_functions_reach_counts(changed: dict[str, str], same: bool, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    assert (code(tmp_path / "old") == code(tmp_path / "new", **changed)) is same


def numba_s_own(environment: dict[str, str], code: str, where: Path = HOUSE) -> str:
    """Return what a process prints in which numba has read its settings from this environment."""
    asked = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(HOUSE), **environment}
    done = python(["-c", f"from numba.core import config; config.reload_config()\n{code}"], cwd=where, env=asked)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_functions_run_uncompiled_where_numba_is_switched_off() -> None:
    script = "from models.runtime.quantile_forest import cell_of; print(type(cell_of).__name__)"
    assert numba_s_own({"NUMBA_DISABLE_JIT": "1"}, script) == "function\n"


def test_the_pass_that_takes_indices_as_unsigned_fits_this_numba() -> None:
    """features/linking.py changes numba's typed calls; another version of numba may keep them elsewhere."""
    assert numba.__version__.startswith("0.68.")


@kernel
def twice(x: int) -> int:
    return 2 * x


@apart
def thrice(x: int) -> int:
    return twice(x) + x


@njit
def both(x: int) -> int:
    return twice(x) + thrice(x)


def test_what_compiled_code_calls_gets_machine_code_of_its_own_only_once_python_calls_it() -> None:
    assert both(4) == 20
    assert [len(each.signatures) for each in (twice, thrice)] == [0, 0]
    assert thrice(4) == 12
    assert [len(each.signatures) for each in (twice, thrice)] == [0, 1]


def test_a_form_is_stored_while_no_other_process_stores_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_free() -> bool:
        with FileLock(Path(both._cache.cache_path) / "saving.lock").acquire(blocking=False):
            return True

    monkeypatch.setattr(FunctionCache, "save_overload", lambda cache, *form: is_free())
    with pytest.raises(Timeout):
        both._cache.save_overload("signature", "form")
    assert is_free()


LONG = """    for value in values:
        if value > least:
            total += value * value - least / (NUMBER.5 + value)
        else:
            total -= np.log(NUMBER.5 + abs(value))
"""
PARTS = f"""import numpy as np
from features.jit import apart, njit

@apart
def part(unused, least, values):
    total = 0.0
{"".join(LONG.replace("NUMBER", str(number)) for number in range(1, 13))}    return total

@apart
def whole(values):
    return part(values, 0.5, values) + part(values, 0.25, values) - part(values, 0.1, values)

@njit
def outer(values):
    return part(values, 0.5, values) + part(values, 0.25, values) - part(values, 0.1, values)

values = np.linspace(0, 1, 20)
print(whole(values) == outer(values) != 0)
"""
"""A part too long to be inlined, in code that drops an argument of it, and in numba's own, which does not."""


@pytest.mark.slow
def test_parts_stay_whole_for_other_code_and_a_second_process_loads_what_the_first_compiled(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PARTS)
    script = "import parts\nfrom models.runtime.quantile_forest import cell_of\ncell_of(0.5); print(sum(cell_of.stats.cache_hits.values()))"
    printed = [numba_s_own({"NUMBA_CACHE_DIR": str(tmp_path)}, script, tmp_path) for _ in range(2)]
    assert printed == ["True\n0\n", "True\n1\n"]
