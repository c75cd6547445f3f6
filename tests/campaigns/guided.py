"""Search the byte parser of SWF for inputs of new coverage; each is read as a second reader reads it.

Atheris (libFuzzer for Python) guides the search through the kernel in plain Python, without compilation. What it collected is then
read by the compiled kernel. Atheris is the extra ``fuzz``: without it nothing is tried, and the counts say so.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.campaigns.apart import answer, apart
from tests.campaigns.counts import Counts

ATTEMPTS = 60_000
LONGEST = 400
"""Bytes of the longest input: some lines."""
_HOUSE = Path(__file__).parents[2]


def campaign(attempts: int, seed: int, folder: Path) -> Counts:
    """Give ``attempts`` inputs to the parser."""
    found = importlib.util.find_spec("atheris")
    if found is None or found.origin is None:
        return Counts(0, Counter({"skipped: Atheris (the extra fuzz) is not installed": 1}))
    counts = Counts()
    _guide(attempts, seed, folder / "swf", Path(found.origin).parents[1], counts)
    compiled = apart("tests.campaigns.guided", 0, seed, folder)
    counts.outcomes += compiled.outcomes
    counts.findings += compiled.findings
    return counts


def _guide(attempts: int, seed: int, collected: Path, atheris: Path, counts: Counts) -> None:
    """Run Atheris in a process of its own; count what it ran, and what made it stop."""
    collected.mkdir()
    for number, text in enumerate(_seeds()):
        (collected / f"seed{number}").write_bytes(text)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{_HOUSE}{os.pathsep}{atheris}"}
    options = [f"-runs={attempts}", f"-seed={seed + 1}", f"-max_len={LONGEST}", "-timeout=300", "-rss_limit_mb=1024"]
    told = f"-artifact_prefix={collected.parent}/"
    asked = [
        sys.executable,
        "-c",
        f"from tests.campaigns.guided import search; search({str(collected.parent)!r})",
        *options,
        told,
        str(collected),
    ]
    done = subprocess.run(asked, cwd=_HOUSE, env=environment, capture_output=True, text=True, errors="replace", check=False)
    ran = [int(number) for number in re.findall(r"^#(\d+)", done.stderr, re.MULTILINE)]
    covered = re.findall(r"cov: (\d+)", done.stderr)
    counts.attempts += max(ran, default=0)
    counts.outcomes["swf tried"] += max(ran, default=0)
    counts.outcomes["swf branches covered"] += int(covered[-1]) if covered else 0
    if done.returncode:
        raised = re.findall(r"^\w*(?:Error|Warning|Exception)\b.*", done.stdout + done.stderr, re.MULTILINE)
        left = [path.read_bytes() for path in collected.parent.iterdir() if path.name.startswith(("crash-", "timeout-", "oom-"))]
        counts.findings.append(f"guided swf, seed {seed}: ends with {done.returncode}: {raised[:1]} for {left[:1]}"[:500])


def _seeds() -> list[bytes]:
    from tests.campaigns import seeds

    lines = seeds.swf()[0].splitlines(keepends=True)
    return [b"".join(lines[2:9]), lines[-1], b"1 0e999 1.5 +7 .5 5. -0 8 1e2 -1 1 3 2 7 1 2 -1 -1 9 ; x\r\n"]


def search(folder: str) -> None:
    """Let Atheris call the parser, in plain Python, until its runs are over or something is wrong."""
    import atheris

    with atheris.instrument_imports(include=["pipelines.ingest.swf_kernel"]):
        from pipelines.ingest import swf_kernel  # noqa: F401
    atheris.Setup(sys.argv, _checked(Path(folder)))
    atheris.Fuzz()


def _checked(folder: Path):
    """Return a test of one input: it raises for what is accepted and not as a second reader reads it."""
    import numpy as np

    from features.errors import InputError
    from tests.campaigns.readings import READINGS, compared
    from tests.oracle import readers

    path = folder / "case.swf"

    def one(data: bytes) -> None:
        text = _text(data)
        path.write_bytes(text)
        try:
            with np.errstate(all="ignore"):
                trace = READINGS["swf"].read(path)
        except InputError:
            return
        if wrong := compared(trace, text, readers.swf):  # cleaning and simulation are slow in plain Python
            raise AssertionError(wrong)

    return one


def _text(data: bytes) -> bytes:
    return b"; a trace\n" + data


def _compiled(attempts: int, seed: int, folder: Path) -> Counts:
    """Give what was collected to the compiled kernel."""
    from tests.campaigns.fuzz import judge, warm

    counts = Counts()
    warm(folder)
    for path in sorted((folder / "swf").iterdir()):
        outcome, finding = judge("swf", _text(path.read_bytes()), folder)
        counts.add(f"swf collected, {outcome}", finding and f"guided swf, seed {seed}, compiled: {path.read_bytes()!r}: {finding}")
    return counts


if __name__ == "__main__":
    answer(_compiled)
