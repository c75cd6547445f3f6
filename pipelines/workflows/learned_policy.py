"""Learned policies: an order learned on a trace, and its version of ``policy-<trace>``.

A version is read back before an alias points to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mlflow.exceptions import MlflowException

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.policies import PolicyFile
from models.registry.policy_registration import POLICY, gain, register
from models.registry.tracking import Tracking
from models.registry.versions import all_or_nothing
from pipelines.storage.policies import checked, make_policy, registered_policy
from pipelines.storage.registry import kept_versions, pruned, tracking
from sim.campaigns.learned_order import ALGORITHM, BACKFILL, Learning, learn_order


def learned_policy(clean: CleanTrace, learning: Learning, *, name: str = "", until_s: int | None = None) -> PolicyFile:
    """Return the policy that is learned on weeks of ``clean``, with its evidence.

    On those that end by ``until_s``, by default on all. It is called like the trace, or ``name``. Raises InputError as
    :func:`sim.campaigns.learned_order.learn_order`.
    """
    learned = learn_order(clean.jobs, learning, trace=clean.name, procs=clean.procs, clock=clean.clock, until_s=until_s)
    meant = {"algorithm": ALGORITHM, "backfill": BACKFILL, "starvation_s": learning.starvation_s}
    return make_policy(name or clean.name, str(learned.score), trained=learned.trained, evidence=learned.evidence, **meant)


@dataclass(frozen=True)
class RegisteredPolicy:
    """A new version.

    ``scheduler`` is how a simulation names it, ``doubt`` says why it may not be better than its baseline, if so.
    """

    model: str
    version: str
    alias: str
    scheduler: str
    doubt: str


def register_policy(
    policy: PolicyFile,
    trace: str,
    alias: str = "champion",
    *,
    tags: Mapping[str, str] | None = None,
    store: Callable[[], Tracking] = tracking,
) -> RegisteredPolicy:
    """Register ``policy`` as the next version of ``policy-<trace>`` and point ``alias`` to it.

    The version is read back first; if that fails none is left. An empty ``alias`` moves none. ``tags`` say what made it. Raises
    InputError for a policy that cannot be simulated, a trace or alias that is no name, and a registry that refuses.
    """
    model = POLICY.registered(trace)
    if (alias and not alias.isidentifier()) or (alias.lower().startswith("v") and alias[1:].isdigit()) or alias == "latest":
        raise InputError(
            f"alias {alias!r}: is no alias such as champion: letters, digits and _, not latest and not a version's number"
        )
    policy = checked(policy, policy.name)
    opened = store()
    try:
        with all_or_nothing(opened) as made:
            version = register(opened, policy, trace, tags=tags).version
            back = registered_policy(f"registry:{model}@{version}", lambda: opened)
            if replace(back, features=policy.features) != policy:
                raise InputError(f"models:/{model}/{version}: is not read back as it was written")
            if alias:
                opened.client.set_registered_model_alias(model, alias, version)
            made.keep()
    except MlflowException as error:
        raise InputError(f"{model}: {str(error).strip().splitlines()[0]}") from error
    pruned(opened, model, kept_versions())
    doubt = "" if policy.evidence is not None and policy.evidence.clear else gain(policy)
    return RegisteredPolicy(model, version, alias, f"POLICY(registry:{model}@{alias}){policy.behind}", doubt)
