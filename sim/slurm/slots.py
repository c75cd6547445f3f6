"""The slots of ``Slurm.numbers``: single numbers that the scheduler reads and changes."""

from __future__ import annotations

(
    QUEUED,  # records in the queue
    RUNNING,  # running jobs
    BEGUN,  # jobs that the loop must start
    JOINED,  # jobs submitted so far
    SEEN_ENDS,  # ends of jobs seen so far
    CLEARED,  # ends of runs so far whose nodes have answered
    REQUESTS,  # requests for a pass
    LAST_FULL,  # the last full pass, ms
    LAST_ASKED,  # the last pass, full or requested, that the background loop started, ms
    LAST_PASS,  # the last pass, ms
    TICK,  # the next turn of the background loop that may start a pass, ms; NO_TIME without one
    PASS,  # the next postponed pass, ms; NO_TIME without one
    CYCLE,  # when the backfill scheduler wakes next, ms
    LAST_CYCLE,  # the end of the last cycle, ms
    DECAY,  # the next computation of priorities, ms
    LAST_DECAY,  # the last computation of priorities, s
    DIRTY,  # whether anything has changed since the last pass
    BACKFILL_DIRTY,  # whether anything has changed since the last cycle
    CHANGED_AT,  # the last start, end or submission, ms
    OUTAGE,  # the next event, a row of SiteEvents
    STAMP,  # the number of the present pass or cycle
    INTERVALS,  # intervals of the map of plans
    SPLIT,  # of one job's looks at the map: see plans.free_throughout
    REACH,
    FIRST_PRIORITY,  # priority/basic: the priority of the next job
    RANK,  # fair tree: the rank of the next user
    PASSES,  # main passes so far
    CYCLES,  # backfill cycles so far
    ENDINGS,  # ends of runs so far, including stopped jobs
    STOPPED,  # jobs that the loop must stop
    NOTICE,  # when a waiting job may begin or a grace time ends next, ms; NO_TIME without
    PLACES,  # job records made by slurmctld so far
    ABLE,  # the number of nodes with processors for the job
    FUTILE,  # rows of CycleScratch.futile in use
    COUNTED,  # of backfill's last count: jobs ended by then, NONE: it must begin anew
    TOTAL,  # and processors free
    NUMBERS,
) = range(37)
