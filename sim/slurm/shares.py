"""Fair share: usage of associations, decayed, and the factor of each user.

From priority_multifactor.c and fair_tree.c. Classic fair share (NO_FAIR_TREE) uses no ranks.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.slurm.state import LAST_DECAY, NONE, OF_PARENT, RANK, RUNNING


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
    kept, used = seconds * ask.usage[job], seconds * slurm.rules.decay**seconds * ask.usage[job]
    for row in range(ask.minutes[job], ask.minutes[job + 1]):
        if is_of(ask.meter_qos[row], job, slurm):
            slurm.meters.spent[ask.meter[row]] += (kept if slurm.meters.keeps[ask.meter[row]] != 0 else used) * ask.metered[row]
    amount = used * slurm.now.billed[job]
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
    factor = rules.decay ** max(second - numbers[LAST_DECAY], 0)
    for row in range(len(tree.usage)):
        tree.usage[row] *= factor
    for meter in range(len(slurm.meters.spent)):
        slurm.meters.spent[meter] *= 1.0 if slurm.meters.keeps[meter] != 0 else factor
    for i in range(numbers[RUNNING]):
        charge(slurm.now.running[i], numbers[LAST_DECAY], second, slurm)
    numbers[LAST_DECAY] = second
    share_out(slurm)


@apart
def share_out(slurm):
    """Compute the users' factors.

    Classic fair share computes accounts now, users when first needed (``_set_children_usage_efctv``).
    """
    tree = slurm.tree
    if slurm.rules.damping == 0.0:
        rank_users(slurm)
        return
    for row in range(len(tree.user)):
        tree.factor[row] = np.nan
        if tree.user[row] == 0:
            tree.level[row] = _effective_usage(row, tree)


@kernel
def _effective_usage(row, tree):
    """Return an association's share of usage, mixed with its account's by part of the shares."""
    if row == 0:
        return 1.0
    above = tree.above[row]
    if tree.shares[row] == OF_PARENT:
        return tree.level[above]
    own = min(tree.usage[row] / tree.usage[0], 1.0) if tree.usage[0] > 0 else 0.0
    return own if above == 0 else own + (tree.level[above] - own) * tree.part[row]


@kernel
def factor_of(leaf, tree, damping):
    """Return the fair-share factor of a user, 0 without an association.

    In classic fair share it is 2 ^ (-effective usage / shares / damping), from usage at the time when a job first needs it.
    """
    if leaf < 0:
        return 0.0
    if np.isnan(tree.factor[leaf]):
        norm = tree.norm[leaf]
        tree.factor[leaf] = 2.0 ** (-_effective_usage(leaf, tree) / norm / damping) if norm > 0 else 0.0
    return tree.factor[leaf]


@apart
def rank_users(slurm):
    """Write the factor of each user, its rank over the number of users (fair_tree.c).

    The walk goes down the tree, siblings by level (shares over usage), highest first, at ties users first. Tied users share a rank.
    """
    tree, numbers = slurm.tree, slurm.numbers
    users = 0
    for row in range(len(tree.user)):
        users += tree.user[row]
    if users == 0:
        return
    numbers[RANK], rank = users, users
    tree.stack[0], tree.tied[0], size = 0, 0, 1
    while size > 0:
        size -= 1
        row, tied = tree.stack[size], tree.tied[size]
        if tree.user[row] != 0:
            if tied == 0:
                rank = numbers[RANK]
            tree.factor[row] = rank / users
            numbers[RANK] -= 1
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
