"""Canonical jobs, and data derived from them: cleaning, per-user history, snapshots."""
