"""The simulator: what a scheduler and a predictor would have made of a workload, and what that was worth."""

from sim.metrics import evaluate
from sim.schedule import Schedule, recorded
from sim.simulate import simulate

__all__ = ["Schedule", "evaluate", "recorded", "simulate"]
