"""Predictors of runtime, one per file, and measures of their predictions."""
