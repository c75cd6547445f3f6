"""Stored tables and models: lake, stores of counters and runs, the model registry."""
