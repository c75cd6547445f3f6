"""Slurm's scheduler: clocks, passes and priorities by which slurmctld starts jobs.

On a site as its files describe it. Rules are those of Slurm 22.05; names of its files and functions stand at each. The parts plug into the one event loop
(:mod:`sim.kernel.loop`), which then counts milliseconds: Slurm's clocks have phases below a second, and these decide.
"""
