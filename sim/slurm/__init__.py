"""Slurm's scheduler: clocks, passes and priorities by which slurmctld starts jobs.

The rules are those of Slurm 22.05; docstrings name its files and functions. The parts plug into the event loop
(:mod:`sim.kernel.loop`), which then counts milliseconds, as phases of Slurm's clocks below a second decide starts.
"""
