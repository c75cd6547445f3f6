"""Slurm's files: accounting, site folders, queues and slurmctld's log."""
