"""The simulator: what a scheduler and a predictor would have made of a workload, and what that was worth."""

from sim.schedule import Schedule, recorded
from sim.simulate import simulate

__all__ = ["Schedule", "recorded", "simulate"]
