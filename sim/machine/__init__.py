"""Machines that are more than one pool of processors: clusters of nodes, with limits."""
