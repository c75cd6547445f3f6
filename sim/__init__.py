"""The simulator: the schedule of a workload under a scheduler and a predictor."""

from sim.campaigns.campaign import campaign_schedules, run_campaign
from sim.campaigns.points import Point
from sim.campaigns.windows import split_windows
from sim.metrics.schedule_metrics import evaluate
from sim.own.compiled_policy import CompiledView, compiled
from sim.own.decide import View, decide
from sim.policy import Policy
from sim.schedule import Schedule, recorded
from sim.settings import Campaign
from sim.simulate import simulate

__all__ = [
    "Campaign",
    "CompiledView",
    "Point",
    "Policy",
    "Schedule",
    "View",
    "campaign_schedules",
    "compiled",
    "decide",
    "evaluate",
    "recorded",
    "run_campaign",
    "simulate",
    "split_windows",
]
