"""Metrics of schedules, and comparisons with intervals."""
