"""Hierarchy of templates of Goponenko et al. 2022: means over groups of similar jobs.

A template is a choice of keys among job name (executable), user, time limit (request) and nodes (processors). Jobs with
equal keys form a group with an exponentially decaying mean of the runtimes ended so far. The prediction is the mean of
the first group with an ended job, else the request. Templates are tried in the order of the authors' slides, which
counts down in binary: all four keys, all but nodes, all but time limit, job name and user, ...; the last has no keys
and holds all jobs. That one is on the slides; the published program falls back to the request instead.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd
from features.jit import kernel
from features.jobs.schema import alike, codes
from models.runtime.memory import Memory
from models.runtime.options import Option, read, spelled
from models.runtime.protocol import CompiledPredictor

HIERARCHY = 3
"""Code of this predictor inside the kernel."""
ALPHA = 0.2
"""Weight of a new runtime against the previous mean, as published; the first runtime of a group is its first mean."""
_KEYS = 4
TEMPLATES = 2**_KEYS
"""Including the template without keys, as on the slides; the program has one less."""
OPTIONS = {
    "alpha": Option(ALPHA, above=0.0, maximum=1.0),
    "templates": Option(str(TEMPLATES), words=(str(TEMPLATES), str(TEMPLATES - 1))),
}
MEAN, ENDED = range(2)
"""Columns of ``Memory.users``, whose rows are groups here."""


def hierarchy(**options: str) -> CompiledPredictor:
    """Return the predictor.

    ``alpha`` in (0, 1] is the weight of the latest runtime, ``templates`` is 16, or 15 as in the published program.
    """
    values = read(options, OPTIONS)
    return CompiledPredictor(
        spelled("hierarchy", values, OPTIONS), HIERARCHY, lambda jobs: _memory(jobs, values["alpha"], int(values["templates"]))
    )


def groups(jobs: pd.DataFrame, templates: int = TEMPLATES) -> np.ndarray:
    """Return each job's group under each template, int64 [jobs, templates].

    Groups are numbered across templates; -1 if a key of the template is unknown.
    """
    keys = [codes(jobs, "executable"), codes(jobs, "user")]
    keys += [pd.factorize(jobs[column])[0].astype(np.int64) for column in ("requested_s", "procs")]
    numbers, everyone = np.full((len(jobs), templates), -1, np.int64), np.zeros(len(jobs), np.int64)
    count = 0
    for template in range(templates):
        # a set bit leaves the key out
        kept = [everyone, *(key for position, key in enumerate(keys) if not template >> (_KEYS - 1 - position) & 1)]
        complete = np.all([key >= 0 for key in kept], axis=0)
        members = alike([key[complete] for key in kept])
        numbers[complete, template] = members + count
        count += int(members.max(initial=-1)) + 1
    return numbers


def _memory(jobs: pd.DataFrame, alpha: float, templates: int) -> Memory:
    keys = groups(jobs, templates)
    return Memory(users=np.zeros((int(keys.max(initial=-1)) + 1, 2)), keys=keys, model=np.array([alpha]))


@kernel
def estimate(memory, row, requested, longer):
    """Return the mean of the first group that exceeds ``longer`` seconds, else the request."""
    for template in range(memory.keys.shape[1]):
        group = memory.keys[row, template]
        if group >= 0 and memory.users[group, ENDED] > 0.0:
            seconds = np.rint(memory.users[group, MEAN])
            if seconds > longer:
                return seconds
    return 1.0 * requested


@kernel
def learn(memory, row, runtime):
    for template in range(memory.keys.shape[1]):
        group = memory.keys[row, template]
        if group >= 0:
            weight = memory.model[0] if memory.users[group, ENDED] > 0.0 else 1.0
            memory.users[group, MEAN] += weight * (runtime - memory.users[group, MEAN])
            memory.users[group, ENDED] += 1.0
