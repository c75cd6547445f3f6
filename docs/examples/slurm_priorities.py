#!/usr/bin/env python3
"""Priorities for Slurm's waiting jobs from a policy file of Queuecast: plain Python, nothing to install.

    slurm_priorities.py POLICY.json            print one `scontrol update` a job
    slurm_priorities.py POLICY.json --apply    run them (as an operator of Slurm, for instance every minute)

`r` is the requested time. Held jobs stay held. Where a feature changes with time, run it as often as it matters.
"""

import ast
import json
import math
import subprocess
import sys
import time

TOP = 2_000_000_000  # the priority of the first job; 0 would hold a job
OPERATIONS = {
    **{ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Pow: pow},
    **{ast.Div: lambda a, b: a / b if b else 0.0, ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b},
    **{ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b, "min": min, "max": max, "abs": abs, "tanh": math.tanh},
    **{"log": lambda a: math.log(max(a, 1e-9)), "sqrt": lambda a: math.sqrt(max(a, 0.0)), "exp": math.exp},
    "where": lambda condition, a, b: a if condition else b,
}


def value(node, values):
    """Return the value of a part of the formula; what is no number, or too large for one, as in the policy's arithmetic."""
    if isinstance(node, ast.Constant):
        return float(node.value)
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        return (-1 if isinstance(node.op, ast.USub) else 1) * value(node.operand, values)
    if isinstance(node, ast.Call):
        operation, parts = OPERATIONS[node.func.id], node.args
    elif isinstance(node, ast.Compare):
        operation, parts = OPERATIONS[type(node.ops[0])], [node.left, *node.comparators]
    else:
        operation, parts = OPERATIONS[type(node.op)], [node.left, node.right]
    try:
        result = operation(*(value(part, values) for part in parts))
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return 0.0 if isinstance(result, complex) or math.isnan(result) else float(result)


def seconds(text):
    """Return the seconds of Slurm's D-HH:MM:SS; of UNLIMITED a year."""
    if not text[:1].isdigit():
        return 365 * 86400.0
    days, _, clock = text.rpartition("-")
    return int(days or 0) * 86400.0 + sum(int(part) * 60**place for place, part in enumerate(reversed(clock.split(":"))))


def priorities(policy, waiting, procs, free, now):
    """Return (job, priority) in the policy's order; ``waiting`` are lines ID|PROCESSORS|LIMIT|SUBMISSION|PRIORITY of squeue."""
    rows = [line.split("|") for line in waiting]
    jobs = [
        (job, float(n), seconds(limit), time.mktime(time.strptime(when, "%Y-%m-%dT%H:%M:%S")))
        for job, n, limit, when, p in rows
        if p != "0"
    ]
    clock = time.localtime(now)
    machine = {"procs": procs, "free": free, "queue": len(jobs), "demand": sum(n * r for _, n, r, _ in jobs)}
    machine["hour"] = clock.tm_hour + clock.tm_min / 60 + clock.tm_sec / 3600
    formula, values = ast.parse(policy["formula"], mode="eval").body, {**machine, **policy["parameters"]}
    score = {job: value(formula, {**values, "n": n, "r": r, "requested": r, "wait": now - at}) for job, n, r, at in jobs}
    first = sorted(jobs, key=lambda job: (score[job[0]], job[3], int(job[0])))
    return [(job, TOP - 1000 * place) for place, (job, *_) in enumerate(first)]


def output_of(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{command[0]}: {(getattr(error, 'stderr', '') or str(error)).strip()}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        policy = json.load(file)
    if "r" in policy["features"] and policy["predictor"] != "requested":
        sys.exit(f"{sys.argv[1]}: its r is not the requested time: {policy['features']['r']['meaning']}")
    _, free, _, procs = map(float, output_of("sinfo", "-h", "-o", "%C")[0].split("/"))
    queue = output_of("squeue", "-h", "--states=PENDING", "-o", "%A|%C|%l|%V|%Q")
    for job, priority in priorities(policy, dict.fromkeys(queue), procs, free, time.time()):
        command = ["scontrol", "update", f"JobId={job}", f"Priority={priority}"]
        print(*command)
        if "--apply" in sys.argv[2:]:
            output_of(*command)
