"""The simulated monitored cluster: a fat tree of nodes, contention, and counters."""
