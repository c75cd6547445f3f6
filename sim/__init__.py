"""The simulator: the schedule of a workload under a scheduler and a predictor.

Names are imported when they are first used: a command that only reads a machine's description compiles no simulator.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.campaigns.campaign import campaign_schedules, run_campaign
    from sim.campaigns.points import Point
    from sim.campaigns.windows import split_windows
    from sim.metrics.schedule_metrics import evaluate
    from sim.own.decide import View, decide
    from sim.policy import Policy
    from sim.schedule import Schedule, recorded
    from sim.settings import Campaign
    from sim.simulation import simulate

_HOMES = {
    "Campaign": "sim.settings",
    "Point": "sim.campaigns.points",
    "Policy": "sim.policy",
    "Schedule": "sim.schedule",
    "View": "sim.own.decide",
    "campaign_schedules": "sim.campaigns.campaign",
    "decide": "sim.own.decide",
    "evaluate": "sim.metrics.schedule_metrics",
    "recorded": "sim.schedule",
    "run_campaign": "sim.campaigns.campaign",
    "simulate": "sim.simulation",
    "split_windows": "sim.campaigns.windows",
}

__all__ = [
    "Campaign",
    "Point",
    "Policy",
    "Schedule",
    "View",
    "campaign_schedules",
    "decide",
    "evaluate",
    "recorded",
    "run_campaign",
    "simulate",
    "split_windows",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
