"""Labels of variation from control runs, and the feature rows of classifiers.

Nichols et al. (RUSH), sections III and IV-A: a run's z-score is its distance from its application's mean runtime in
standard deviations; above 1.5 it varied. Its features are 270 of counters (:mod:`features.monitoring.windows`), nine of
two MPI probes and three of the application's type.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from features.errors import InputError, shown
from features.monitoring.samplers import FEATURES, PROBE_FEATURES, PROBES, STATISTICS, TYPE_FEATURES, TYPES

BINARY = (1.5,)
"""Threshold of z for the labels no variation and variation."""
LITTLE = 1.2
THREE_CLASSES = (LITTLE, 1.5)
"""Thresholds for no, little and much variation, the labels that Nichols et al. train the scheduler's model on."""
DELAYS = (0.5, LITTLE, 1.5, 3.0, 6.0)
"""Thresholds that say how much longer a run takes, in standard deviations; those of :data:`THREE_CLASSES` among
them."""


def variation_class(thresholds: Sequence[float]) -> int:
    """Return the lowest class that counts as variation.

    It is the class above the threshold of BINARY, or the last class if that threshold is not among ``thresholds``.
    """
    return thresholds.index(BINARY[0]) + 1 if BINARY[0] in thresholds else len(thresholds)


def baselines(application: Sequence[str] | np.ndarray | pd.Series, runtime_s: np.ndarray | pd.Series) -> pd.DataFrame:
    """Return each application's usual runtime: ``mean_s sigma_s`` (float64) and ``runs``.

    ``application`` (the sorted index) and ``runtime_s`` (seconds) [runs] must come from the training part alone.
    ``sigma_s`` is the standard deviation of these runs (ddof = 0; the paper does not specify it), 0 if all took equally
    long; ``runs`` is int64. Of n runs none is beyond sqrt(n - 1) standard deviations, so with three or fewer nothing
    can vary. Raises InputError for a runtime that is not a positive number and for a run without application.
    """
    runs = _runs(application, runtime_s)
    groups = runs.groupby("application", sort=True)["runtime_s"]
    table = pd.DataFrame({"mean_s": groups.mean(), "sigma_s": groups.std(ddof=0), "runs": groups.size().astype(np.int64)})
    return table.rename_axis("application")


def z_scores(
    application: Sequence[str] | np.ndarray | pd.Series, runtime_s: np.ndarray | pd.Series, baselines: pd.DataFrame
) -> np.ndarray:
    """Return (runtime - mean) / sigma by the run's application, float64 [runs].

    ``baselines`` comes from :func:`baselines`. NaN where the application has no baseline or a sigma of 0. Raises InputError as
    :func:`baselines` does.
    """
    runs = _runs(application, runtime_s)
    usual = baselines.reindex(runs["application"])
    sigma = usual["sigma_s"].to_numpy(np.float64)
    return (runs["runtime_s"].to_numpy() - usual["mean_s"].to_numpy(np.float64)) / np.where(sigma > 0, sigma, np.nan)


def labels(z: np.ndarray, thresholds: Sequence[float] = BINARY) -> np.ndarray:
    """Return classes int64 [runs]: the number of thresholds below ``z``, 0 for no variation.

    One-sided: a run faster than usual did not vary. A run at the threshold counts as below it (the paper leaves this
    open). Raises InputError for a z of NaN: leave such runs out, and count them.
    """
    z = np.asarray(z, np.float64)
    if len(thresholds) == 0 or not (np.diff(thresholds) > 0).all():
        raise InputError(f"thresholds must ascend, not {tuple(thresholds)}")
    if np.isnan(z).any():
        raise InputError(
            f"{np.isnan(z).sum()} of {len(z)} runs have no z-score and no label: their application has no baseline or never varied"
        )
    return np.searchsorted(np.asarray(thresholds, np.float64), z, side="left").astype(np.int64)


def probe_features(probes: pd.DataFrame, run_ids: Sequence[str] | pd.Index | pd.Series) -> pd.DataFrame:
    """Return the nine features of the MPI probes: float64 [runs, 9], index ``run_id``.

    Columns ``probe.<call>.<min|max|mean>``, rows in the order of ``run_ids``. ``probes`` is the canonical table, one
    row for each node of a run: seconds it waited in the blocking calls. Min, max and mean are over the run's nodes with
    a value; NaN for a run without any. Rows of other runs are ignored. Raises InputError for two rows of one node and
    for waits below 0.
    """
    rows = probes[probes["run_id"].isin(pd.Index(run_ids))]
    again = rows.duplicated(["run_id", "node"])
    if again.any():
        first = rows[again].iloc[0]
        raise InputError(f"run {shown(first['run_id'])} has several probe results of node {shown(first['node'])}")
    waits = rows[list(PROBES)].astype(np.float64)
    wrong = ((waits < 0) | np.isinf(waits)).any(axis=1)
    if wrong.any():
        first = rows[wrong].iloc[0]
        raise InputError(f"run {shown(first['run_id'])} has probe results of node {shown(first['node'])} that are not times")
    groups = waits.groupby(rows["run_id"].astype(str), sort=False)
    columns = {f"probe.{name}.{statistic}": getattr(groups[name], statistic)() for name in PROBES for statistic in STATISTICS}
    table = pd.DataFrame(columns, columns=list(PROBE_FEATURES), dtype=np.float64)
    return table.reindex(pd.Index(run_ids, name="run_id"))


def type_features(application: Sequence[str] | np.ndarray | pd.Series, types: Mapping[str, str]) -> pd.DataFrame:
    """Return the one-hot type of each run's application: float64 [runs, 3].

    Columns ``type.<compute|network|io>``, rows in the order of ``application``. ``types`` maps applications to one of
    :data:`features.monitoring.samplers.TYPES`; another type raises InputError. NaN for an application missing from ``types``.
    """
    for name, kind in types.items():
        if kind not in TYPES:
            raise InputError(f"application {shown(name)} is of type {shown(kind)}; types are {' '.join(TYPES)}")
    kinds = np.array([TYPES.index(types[name]) if name in types else -1 for name in application], np.int64)
    matrix = np.where(kinds[:, None] < 0, np.nan, (kinds[:, None] == np.arange(len(TYPES))).astype(np.float64))
    return pd.DataFrame(matrix, columns=list(TYPE_FEATURES))


def feature_matrix(windows: pd.DataFrame, probes: pd.DataFrame, types: Mapping[str, str], runs: pd.DataFrame) -> pd.DataFrame:
    """Return the classifier's inputs: float64 [runs, features], index ``run_id``.

    ``windows`` is one scope of :class:`features.monitoring.windows.WindowFeatures` (``own`` or ``all``), ``probes`` the
    canonical table, ``types`` as for :func:`type_features`, ``runs`` the canonical control runs, of which only
    ``run_id`` and ``application`` are read. Columns: those of ``windows``, with those in
    :data:`features.monitoring.samplers.FEATURES` first and in that order, then the probes' nine and the type's three;
    with the paper's samplers these are exactly FEATURES. Missing values are NaN. Raises InputError for a run missing
    from ``windows``, and the errors of the functions for its parts.
    """
    run_ids = pd.Index(runs["run_id"], name="run_id")
    absent = run_ids.difference(windows.index)
    if len(absent):
        raise InputError(f"{len(absent)} runs have no window features, the first is {shown(absent[0])}")
    place = {name: number for number, name in enumerate(FEATURES)}
    columns = sorted(windows.columns, key=lambda name: place.get(name, len(place)))  # stable: other columns keep their order
    kinds = type_features(runs["application"].tolist(), types).set_axis(run_ids, axis=0)
    parts = [windows.loc[run_ids, columns], probe_features(probes, run_ids), kinds]
    return pd.concat(parts, axis=1).astype(np.float64)


def _runs(application: Sequence[str] | np.ndarray | pd.Series, runtime_s: np.ndarray | pd.Series) -> pd.DataFrame:
    table = pd.DataFrame({"application": np.asarray(application, object), "runtime_s": np.asarray(runtime_s, np.float64)})
    wrong = ~(np.isfinite(table["runtime_s"]) & (table["runtime_s"] > 0))
    if wrong.any():
        raise InputError(f"run {int(np.argmax(wrong))} (counted from 0) took {table['runtime_s'][wrong].iloc[0]} s, no runtime")
    if table["application"].isna().any():
        raise InputError(f"run {int(np.argmax(table['application'].isna()))} (counted from 0) has no application")
    return table
