"""Workloads that are generated, where no log will do."""
