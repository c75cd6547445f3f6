"""Canonical monitoring counters, and data derived from them: rates, windows, labels."""
