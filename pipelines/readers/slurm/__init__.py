"""Slurm's files: accounting, site folders, queues and slurmctld's log."""

_FIELDS = (
    "JobArrayID State UserName Partition NumCPUs TimeLimit SubmitTime StartTime Account QOS PriorityLong tres-alloc NodeList Reason "
    "Reservation Dependency Feature"
)
COMMAND = f'squeue --all --array --states=RUNNING,PENDING --Format="{":|,".join(_FIELDS.split())}"'
"""Command that makes a snapshot of a Slurm site."""
