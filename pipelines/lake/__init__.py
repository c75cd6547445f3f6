"""The lake: tables, versions, pointers, counters, and the site's model registry."""
