"""Predictors of runtime, one a file, and how good their predictions are."""
