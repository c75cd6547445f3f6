"""Rules that a recorded log obeys: inferred from its first part, replayed on the one event loop, and judged on what follows."""
