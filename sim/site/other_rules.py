"""Starts of jobs under other schedulers on a Slurm site's nodes.

Nodes, partitions, memory, GPUs, features and eligible times still apply. Priorities, tiers, limits of accounts and QOS,
reservations and outages do not: they are Slurm's.
"""

from __future__ import annotations

import re
from itertools import groupby

import numpy as np
import pandas as pd

from sim.inputs.predicted_limits import as_table
from sim.machine.description import Cluster, Machine, NodeGroup
from sim.replays import moved_by_seed
from sim.simulation import simulate
from sim.slurm.site import Node, Site


def started(site: Site, jobs: pd.DataFrame, scheduler: str, predictor: str, seed: int) -> np.ndarray:
    """Return when a scheduler starts each job on the site's nodes.

    Unix seconds, float64 [jobs], NaN for a job that no nodes can hold. ``jobs`` has the columns of a replay. Raises InputError
    for an unknown scheduler or predictor.
    """
    ready = np.maximum(jobs["submit_s"].to_numpy(np.int64), jobs["eligible_s"].to_numpy(np.int64))
    order = np.argsort(ready, kind="stable")
    arrived = jobs.assign(submit_s=ready).iloc[order].reset_index(drop=True)
    machine, table = on_nodes(site, arrived)
    held = machine.holds(table)
    start = np.full(len(jobs), np.nan)
    drawn = seed if moved_by_seed(predictor, 0, [scheduler]) else 0
    schedule = simulate(table[held].reset_index(drop=True), scheduler=scheduler, predictor=predictor, seed=drawn, machine=machine)
    start[order[held]] = schedule.jobs["start_s"].to_numpy(np.float64)
    return start


def on_nodes(site: Site, jobs: pd.DataFrame) -> tuple[Machine, pd.DataFrame]:
    """Return a site's nodes as one cluster, and a canonical table of jobs that ask for them."""
    partitions = {text: f"partition{at}" for at, text in enumerate(sorted(set(jobs["partition"])))}
    named: dict[str, set[str]] = {}
    for text, name in partitions.items():
        named[name] = set().union(*(site.partitions[part].nodes for part in text.split(",")))

    def kind(node: Node) -> tuple[int, int, int, tuple[str, ...]]:
        inside = (name for name, nodes in named.items() if node.name in nodes)
        return node.cpus, node.memory * 1024, node.gpus, (*sorted(node.features), *inside)

    kinds = tuple(NodeGroup(len([*nodes]), *alike) for alike, nodes in groupby(site.nodes, kind))
    features = jobs["features"].map(lambda text: text.replace("&", ":") if re.fullmatch(r"[\w.&-]+", text) else "")
    alone = {name for name, part in site.partitions.items() if part.exclusive}
    of_nodes, of_all = jobs["memory_node"] * jobs["min_nodes"], jobs["memory_cpu"] * jobs["cpus"]
    memory = of_nodes.where(of_nodes > of_all, of_all) * 1024
    memory = memory.astype("Int64").mask((memory == 0) | ("MEMORY" not in site.settings.get("selecttypeparameters", "").upper()))
    whole = jobs["exclusive"].to_numpy(bool) | jobs["partition"].isin(alone).to_numpy()
    table = as_table(jobs.assign(runtime_s=jobs[["runtime_s", "limit_s"]].min(axis=1))).assign(  # Slurm kills at a poll, later
        nodes=jobs["min_nodes"].astype("Int64").mask((jobs["min_nodes"] == 1) & (jobs["max_nodes"] != 1)),
        memory_kib=memory,
        gpus=(jobs["gpus"] * jobs["min_nodes"]).astype("Int64"),
        properties=(jobs["partition"].map(partitions) + ":" + features).str.removesuffix(":").astype("category"),
        exclusive=pd.array(whole.astype(int), "Int8"),
    )
    return Machine(site.name, (Cluster("nodes", kinds),)), table
