"""The results of a campaign: how much was tried, what came of it, what was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Count what a campaign tried; keep every finding.

    ``outcomes`` counts attempts by their outcome ("accepted", "refused", "killed, nothing changed"). A finding is one line that says what was
    done, with its seed or input, and what was wrong; a campaign without a defect has none.
    """

    attempts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, outcome: str, finding: str | None = None) -> None:
        """Count one attempt, with its finding if there is one."""
        self.attempts += 1
        self.outcomes[outcome] += 1
        if finding:
            self.findings.append(" ".join(finding.split())[:500])
