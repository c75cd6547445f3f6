"""From bytes to tables: logs, accounting, counters, queues, and a site's settings."""

SIMULATED = "simulated"
"""Name of the embedded default, a small simulated cluster, and of its accounting."""
