"""What goes into a registered runtime model, as a directory of plain files: configuration, history snapshot, trees, and code that needs no Queuecast."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import lightgbm
import pandas as pd

PACKED = Path(__file__).with_name("packed")
SCRIPT = PACKED / "runtime_model.py"
"""The model itself, as MLflow runs it."""
FORMAT = 1
"""Format of the directory; a model of another one is refused when it is loaded."""
METHODS = ("requested", "last2", "lightgbm")


@dataclass(frozen=True)
class Configuration:
    """What a packed model knows of where it comes from: ``at_s`` is the snapshot's instant in seconds from the trace's origin."""

    trace: str
    method: str
    at_s: int
    origin_unix_s: int
    timezone: str | None
    generated: bool
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"unknown method {self.method!r}: known are {', '.join(METHODS)}")


def pack(directory: Path, configuration: Configuration, history: pd.DataFrame, booster: lightgbm.Booster | None = None) -> Path:
    """Fill ``directory`` (new) with a model; ``history`` is :func:`features.snapshot.snapshot`'s table. Returns ``directory``."""
    if (booster is not None) != (configuration.method == "lightgbm"):
        raise ValueError(f"a model of method {configuration.method} {'needs' if booster is None else 'has no'} trees")
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(asdict(configuration), indent=2) + "\n", encoding="utf-8")
    history.to_csv(directory / "history.csv", index=False)
    for module in ("snapshot_inputs.py", "boosting.py"):
        shutil.copyfile(PACKED / module, directory / module)
    if booster is not None:
        booster.save_model(directory / "trees.txt")
    return directory
