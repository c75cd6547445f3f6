"""From bytes to tables: logs, accounting, counters, queues, and a site's settings."""
