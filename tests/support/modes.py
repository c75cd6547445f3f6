"""Who may read files: their modes."""

from __future__ import annotations

from pathlib import Path


def open_to_others(folder: Path) -> list[str]:
    """List ``folder`` and what lies in it that its group or others may read, change or enter, with modes."""
    every = [folder, *folder.rglob("*")]
    return [f"{oct(each.stat().st_mode & 0o777)} {each}" for each in every if not each.is_symlink() and each.stat().st_mode & 0o077]
