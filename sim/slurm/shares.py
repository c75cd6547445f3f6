"""Fair share: usage of associations, decayed, and the factor of each user.

From priority_multifactor.c and fair_tree.c.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.state import NONE, OF_PARENT


@kernel
def is_of(qos, job, slurm):
    """Tell whether ``qos`` (NONE: any) is the one with which ``job`` is tried, or runs."""
    return qos == NONE or qos == slurm.now.qos[job]


@kernel
def charge(job, since, until, slurm):
    """Add what ``job`` used from ``since`` to ``until`` to its association and all above it.

    Times are whole seconds, as in Slurm.
    """
    tree, ask = slurm.tree, slurm.ask
    seconds = max(0, until - max(since, slurm.now.start_ms[job] // 1000))
    amount = seconds * slurm.rules.decay**seconds * ask.usage[job] * slurm.now.billed[job]
    leaf = ask.leaf[job]
    while leaf >= 0:
        tree.usage[leaf] += amount
        leaf = tree.parent[leaf]


@kernel
def bill(job, partition, cpus, nodes, slurm):
    """Return the usage that a job adds per second.

    It is the sum of its resources by TRESBillingWeights, or with MAX_TRES the largest of these.
    """
    ask, weights = slurm.ask, slurm.hardware.billing[partition]
    memory = ask.memory_node[job] * nodes if ask.memory_node[job] > 0 else ask.memory_cpu[job] * cpus
    total = most = 0.0
    for weight, amount in ((weights[0], cpus), (weights[1], memory), (weights[2], ask.gpus[job] * nodes), (weights[3], nodes)):
        total, most = total + weight * amount, max(most, weight * amount)
    return most if slurm.rules.bills_most else total


@apart
def decay_usage(second, slurm):
    """Decay usage, charge the running jobs, and compute the users' factors."""
    tree, numbers, rules = slurm.tree, slurm.numbers, slurm.rules
    factor = rules.decay ** max(second - numbers[slots.LAST_DECAY], 0)
    for row in range(len(tree.usage)):
        tree.usage[row] *= factor
    for i in range(numbers[slots.RUNNING]):
        charge(slurm.now.running[i], numbers[slots.LAST_DECAY], second, slurm)
    numbers[slots.LAST_DECAY] = second
    rank_users(slurm)


@kernel
def factor_of(leaf, tree):
    """Return the fair-share factor of a user, 0 without an association."""
    return 0.0 if leaf < 0 else tree.factor[leaf]


@apart
def rank_users(slurm):
    """Write the factor of each user, its rank over the number of users (fair_tree.c).

    The walk goes down the tree, siblings by level (shares over usage), highest first, at ties users first. Tied users
    share a rank.
    """
    tree, numbers = slurm.tree, slurm.numbers
    users = 0
    for row in range(len(tree.user)):
        users += tree.user[row]
    if users == 0:
        return
    numbers[slots.RANK], rank = users, users
    tree.stack[0], tree.tied[0], size = 0, 0, 1
    while size > 0:
        size -= 1
        row, tied = tree.stack[size], tree.tied[size]
        if tree.user[row] != 0:
            if tied == 0:
                rank = numbers[slots.RANK]
            tree.factor[row] = rank / users
            numbers[slots.RANK] -= 1
            continue
        first, last = tree.children[row], tree.children[row + 1]
        _sort_children(first, last, tree.usage[row], slurm)
        for i in range(last - 1, first - 1, -1):  # the last one pushed is popped first
            child = tree.child[i]
            tree.stack[size] = child
            if i == first:
                tree.tied[size] = tied
            else:
                tree.tied[size] = tree.level[child] == tree.level[tree.child[i - 1]]
            size += 1


@kernel
def _sort_children(first, last, usage, slurm):
    """Sort the children of an account by their levels, the highest first."""
    tree = slurm.tree
    for i in range(first, last):
        child = tree.child[i]
        share = tree.usage[child] / usage if usage > 0 else 0.0
        if tree.shares[child] == 0:
            tree.level[child] = 0.0
        else:
            tree.level[child] = np.inf if share == 0 or tree.shares[child] == OF_PARENT else tree.shares[child] / share
        k = i
        while k > first and _before(child, tree.child[k - 1], tree):
            tree.child[k] = tree.child[k - 1]
            k -= 1
        tree.child[k] = child


@kernel
def _before(one, other, tree):
    if tree.level[one] != tree.level[other]:
        return tree.level[one] > tree.level[other]
    return tree.user[one] > tree.user[other]
