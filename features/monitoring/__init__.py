"""Canonical monitoring counters and what is made of them: rates, windows, labels."""
