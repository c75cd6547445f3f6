"""The layers of the code are those that pyproject.toml states as contracts of import-linter, read from there and checked with :mod:`ast`."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

HOUSE = Path(__file__).resolve().parents[1]
STATED = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["importlinter"]
MODULES = {
    ".".join(file.relative_to(HOUSE).with_suffix("").parts).removesuffix(".__init__"): file
    for package in STATED["root_packages"]
    for file in (HOUSE / package).rglob("*.py")
}


def imported(file: Path) -> set[str]:
    """Modules of ours that ``file`` imports, at its top or inside of functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else node.module)
    return found & MODULES.keys()


IMPORTS = {name: imported(file) for name, file in MODULES.items()}


def breaches(contract: dict[str, Any], imports: dict[str, set[str]]) -> list[str]:
    """Imports of a higher layer by a lower one, or between siblings that are to be independent, also by way of modules in no layer."""
    ignored = {tuple(each.split(" -> ")) for each in contract.get("ignore_imports", ())}
    found = []
    for container in contract.get("containers", ("",)):
        rank: dict[str, tuple[int, int]] = {}
        for height, layer in enumerate(reversed(contract["layers"])):
            for number, name in enumerate(part.strip() for part in layer.replace(":", "|").split("|")):
                rank[f"{container}.{name}".strip(".")] = (height, number if "|" in layer else 0)

        def place(module: str, rank: dict[str, tuple[int, int]] = rank) -> tuple[int, int] | None:
            parts = module.split(".")
            return next((rank[name] for size in range(len(parts), 0, -1) if (name := ".".join(parts[:size])) in rank), None)

        for module in imports:
            here, waiting, seen = place(module), [module], {module}
            while here is not None and waiting:
                at = waiting.pop()
                for other in sorted(imports[at] - seen):
                    if (at, other) in ignored:
                        continue
                    seen.add(other)
                    there = place(other)
                    if there is None:
                        waiting.append(other)
                    elif there[0] > here[0] or (there[0] == here[0] and there[1] != here[1]):
                        found.append(f"{module} -> {other}")
    return found


@pytest.mark.parametrize("contract", STATED["contracts"], ids=lambda contract: contract["name"])
def test_no_layer_imports_a_higher_one(contract: dict[str, Any]) -> None:
    assert breaches(contract, IMPORTS) == []


def test_a_breach_is_found_and_an_ignored_one_is_not() -> None:
    contract: dict[str, Any] = {"layers": ["high | beside", "low"], "containers": ["house"]}
    imports = {
        "house.high.a": {"house.low"},
        "house.beside": set(),
        "house.low": {"house.shared"},
        "house.shared": {"house.high.a"},
    }
    assert breaches(contract, imports) == ["house.low -> house.high.a"], "by way of a module that is in no layer"
    assert breaches(contract | {"ignore_imports": ["house.shared -> house.high.a"]}, imports) == []
    assert breaches(contract, {"house.high.a": {"house.beside"}, "house.beside": set()}) == ["house.high.a -> house.beside"]
    assert breaches(contract | {"layers": ["high : beside", "low"]}, {"house.high": {"house.beside"}, "house.beside": set()}) == []
