"""The order of the queue that a run or night learns, registers and simulates.

It is learned from the whole weeks before the date. The champion follows the published version.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.policies import PolicyFile
from models.registry.policy_registration import POLICY, gain, register
from models.registry.tracking import Tracking, all_versions
from pipelines.lake.registry import make_policy, pruned, registered_policy
from pipelines.lake.tables import Lake, read_features
from pipelines.readers.read import simulated_on
from pipelines.training.promote import MADE_FROM, made_from
from pipelines.training.run_settings import shaken
from pipelines.training.work import RUN, Work, cutoff_of
from sim.campaigns.campaign import campaign_schedules
from sim.campaigns.learned_order import ALGORITHM, BACKFILL, FEWEST_WEEKS, last_weeks, learn_order
from sim.schedule import Schedule
from sim.settings import Campaign, Learning


def learn_by_the_date(work: Work, clean: CleanTrace, learning: Learning) -> pd.DataFrame:
    """Call :func:`keep_learned_policy` with the jobs that had ended by the date."""
    end_s = read_features(work.lake, clean).end_s
    until_s = cutoff_of(work.lake.read_for(clean, "runtime_model")[1]).until_s
    return keep_learned_policy(work, clean, end_s, until_s, learning)


def keep_learned_policy(work: Work, clean: CleanTrace, end_s: np.ndarray, until_s: int, learning: Learning) -> pd.DataFrame:
    """Learn an order, register it, and write and return the table ``learned_policy``.

    It learns from whole weeks before ``until_s``, and reads only jobs whose ``end_s`` is at most that. A version that
    the same jobs, settings and rule made before is used again. The table has one row,
    ``version scheduler relative low high note``. If nothing was learned, ``version`` is empty and ``note`` says why. No
    alias moves before the run is published (:func:`pipelines.training.work.point_champions`).
    """
    lake, store = work.lake, work.store
    ended = replace(clean, jobs=clean.jobs[end_s <= until_s].reset_index(drop=True))
    row: dict[str, object] = {"version": "", "scheduler": "", "relative": np.nan, "low": np.nan, "high": np.nan, "note": ""}
    try:
        weeks = last_weeks(ended.jobs, learning, until_s)
    except InputError:  # not one week with jobs
        weeks = []
    if len(weeks) < FEWEST_WEEKS:
        row["note"] = (
            f"{len(weeks)} whole weeks with jobs before the date are too few to learn an order from; {FEWEST_WEEKS} are needed"
        )
    else:
        jobs = fingerprint(pd.concat([week.jobs for week in weeks]))
        key = made_from("policy", {"jobs": jobs, "learning": learning.model_dump(mode="json")})
        model = POLICY.registered(clean.name)
        same = [int(registered.version) for registered in all_versions(store, model) if registered.tags.get(MADE_FROM) == key]
        if same:
            version = str(max(same))
        else:
            policy = learned_policy(ended, learning, until_s=until_s)
            version = register(store, policy, clean.name, tags={RUN: work.run_id, MADE_FROM: key}).version
            pruned(store, model)
        policy = registered_policy(f"registry:{model}@{version}", lambda: store)
        row |= {"version": version, "scheduler": f"SCORE({policy.score}){policy.behind}", "note": gain(policy)}
        if policy.evidence is not None:
            row |= {name: getattr(policy.evidence, name) for name in ("relative", "low", "high")}
    table = pd.DataFrame([row])
    lake.write_for(clean, "learned_policy", table, {"until_s": until_s, "version": row["version"]})
    return table


def policy_schedules(
    lake: Lake, clean: CleanTrace, store: Tracking, seed: int = 0, replicates: int = 1, first_s: int = 0
) -> list[Schedule]:
    """Simulate the registered policy of the table ``learned_policy``, if there is one.

    It is simulated with requests as predictions and the starvation threshold that it was learned with, on the jobs
    submitted from ``first_s`` on. As in the other schedules, ``seed`` is recorded and ``replicates`` are shaken.
    """
    version = lake.read_for(clean, "learned_policy")[1]["version"]
    if not version:
        return []
    policy = registered_policy(f"registry:{POLICY.registered(clean.name)}@{version}", lambda: store)
    replays, jobs = shaken(seed, replicates), clean.jobs[clean.jobs["submit_s"] >= first_s].reset_index(drop=True)
    campaign = Campaign(schedulers=(f"SCORE({policy.score}){policy.behind}",), starvation_s=(policy.starvation_s,), **replays)
    schedules = campaign_schedules(jobs, campaign, **simulated_on(clean))
    return schedules if replays else [replace(schedule, seed=seed) for schedule in schedules]


def learned_policy(clean: CleanTrace, learning: Learning, *, until_s: int | None = None) -> PolicyFile:
    """Learn a policy on the weeks of ``clean`` that end by ``until_s``, with evidence.

    The default is all weeks. Raises InputError as :func:`sim.campaigns.learned_order.learn_order`.
    """
    learned = learn_order(clean.jobs, learning, trace=clean.name, procs=clean.procs, clock=clean.clock, until_s=until_s)
    meant = {"algorithm": ALGORITHM, "backfill": BACKFILL, "starvation_s": learning.starvation_s}
    return make_policy(clean.name, str(learned.score), trained=learned.trained, evidence=learned.evidence, **meant)
