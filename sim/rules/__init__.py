"""Rules that a recorded log obeys.

Inferred from its first part, replayed on the one event loop, and judged on the rest.
"""
