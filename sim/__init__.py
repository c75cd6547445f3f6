"""The simulator: what a scheduler and a predictor would have made of a workload, and what that was worth."""

from sim.campaign import Campaign, Point, campaign_schedules, run_campaign
from sim.metrics import evaluate
from sim.schedule import Schedule, recorded
from sim.simulate import simulate
from sim.windows import split_windows

__all__ = [
    "Campaign",
    "Point",
    "Schedule",
    "campaign_schedules",
    "evaluate",
    "recorded",
    "run_campaign",
    "simulate",
    "split_windows",
]
