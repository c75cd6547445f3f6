"""Canonical jobs and what is made of them: cleaning, per-user history, snapshots."""
