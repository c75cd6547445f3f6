"""Champions of learned orders and of models of starts: they follow what was published."""

from models.registry.policy_registration import POLICY
from models.registry.start_registration import START
from models.registry.tracking import Tracking
from models.registry.versions import aliases
from pipelines.storage.lake import Lake

RUN = "dagster_run_id"
"""Tag of a version that a run or night registered. Versions without it were registered by hand."""


def point_champion(lake: Lake, trace: str, store: Tracking) -> None:
    """Point the champion of ``policy-<trace>`` to the published version.

    A champion that was registered by hand stays.
    """
    version = lake.read("learned_policy", trace)[1]["version"] if lake.has("learned_policy", trace) else ""
    model = POLICY.registered(trace)
    champion = aliases(store, model).get("champion")
    if version and (champion is None or RUN in store.client.get_model_version(model, champion).tags):
        store.client.set_registered_model_alias(model, "champion", version)


def point_start_champion(lake: Lake, trace: str, store: Tracking) -> None:
    """Point champion and challenger of ``start-<trace>`` to the published versions."""
    serves = lake.read("start_model", trace)[1].get("serves", {}) if lake.has("start_model", trace) else {}
    for alias, number in serves.items():
        if number:
            store.client.set_registered_model_alias(START.registered(trace), alias, number)
