"""The policy of :mod:`benchmarks.papers.legrand.learned_study` as files, with what its page says of it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from benchmarks.common.pages import STUDIES
from benchmarks.papers.legrand.learned_families import STARVATION_S, TAUS_S
from benchmarks.papers.legrand.learned_study import SPLITS
from features.jobs.choices import SHAKE_S
from models.policies import Feature, PolicyEvidence, PolicyFile, Trained
from pipelines.storage.policies import make_policy

EXAMPLES = STUDIES.parent / "examples"
LEARNED, BASELINE = "learned of both with predictions", "SAF"
INDEX = Feature(
    "s", "index of the job's expected weight w = E[1/max(runtime, 60 s)] as served: sqrt(requested * min(1/w, requested))"
)


def policy_of(name: str, score: str, rows: pd.DataFrame, trials: int) -> PolicyFile:
    """Return the policy learned on both traces, with its evidence on the testing weeks of the trace ``name``.

    ``rows`` are those of docs/studies/data/learned-policies.csv.
    """
    split = SPLITS[name]
    own = rows[(rows["trace"] == split.title) & (rows["shake_s"] == SHAKE_S) & (rows["starvation_s"] == STARVATION_S)]
    judged = own[own["tau_s"] == TAUS_S[0]].set_index("policy")
    learned, base = judged.loc[LEARNED], judged.loc[BASELINE]
    others = ", ".join(
        f"weeks {other.training.start} to {other.training.stop - 1} of {other.title}"
        for key, other in SPLITS.items()
        if key != name
    )
    policy = make_policy(
        f"{name}-weights",
        score,
        algorithm="EASY(plans=requested)",
        backfill="SPF",
        starvation_s=STARVATION_S,
        predictor="expected weight of benchmarks/papers/legrand/learned_weights.py, trained each week",
        trained=Trained(
            name,
            tuple(split.training),
            f"sum over weeks of the mean bounded slowdown relative to SAF, over shifted and shaken copies of the weeks, with {others}",
            TAUS_S[0],
            1,
            trials,
        ),
        evidence=PolicyEvidence(
            "SAF-EASY-SPF",
            round(float(learned["ratio"]) - 1.0, 5),
            round(float(learned["low"]) - 1.0, 5),
            round(float(learned["high"]) - 1.0, 5),
            tuple(split.testing),
            int(learned["replicates"]),
            0.95,
            float(learned["max_wait_s"]),
            float(base["max_wait_s"]),
        ),
    )
    return replace(policy, features=policy.features | {"r": INDEX})
