"""Variability models from the tables of a system: what classifiers learn from, how well they predict, and one retraining with its promotion.

Read, call, write: what is measured and who is promoted is decided in ``models.variability.evaluation`` and ``models.registry.variability_promotion``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.schema import fingerprint
from features.monitoring.labels import BINARY, THREE_CLASSES, baselines, feature_matrix, labels, z_scores
from features.monitoring.rates import LONGEST_INTERVAL_S
from features.monitoring.samplers import SAMPLERS, WINDOW_S, sampler_of
from models.registry.promotion import Comparison, Evidence
from models.registry.variability_promotion import JUDGED_DAYS, decide, duel, f1_evidence, f1_scores
from models.variability.elimination import eliminate
from models.variability.evaluation import (
    ALL,
    BLOCKED,
    PROTOCOLS,
    ceiling,
    difference,
    folds,
    forward,
    measured,
    predictions,
)
from models.variability.model import CLASSIFIERS, CUTOFF_FOLDS, VariabilityModel, fit
from models.variability.time_blocks import stretches, times_of
from pipelines.storage.lake import Lake

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from features.monitoring.windows import WindowFeatures
    from models.registry.registration import Candidate, Training
    from models.registry.tracking import Tracking
    from pipelines.storage.counters_store import CountersStore

SCOPES = ("own", "all")
TOLD = "told"
"""The set of features that is the true contention, where it is known: what is reached with it is the ceiling."""
EXPERIMENT = "variability prediction"
MEASURES = {"f1": "judged_f1", "judged_runs": "judged_runs"}
"""Columns of the table of versions, and the tags that record them."""
_ASKED_BACK = 200
"""Last runs that a version loaded back from the registry is asked about."""
Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class TrainingTable:
    """Control runs of one system and their features, float64 [runs, features] by scope (``own``, ``all``), in the same order.

    ``told`` is the true contention of each run and ``truth`` int64 [runs] whether it was slowed by it, where a simulated cluster knows. ``left_out`` counts
    runs that are not in it, by the reason. ``coverage`` (a row a run, before any was left out for want of samples), ``counts`` and ``interval_s`` are those of
    :class:`features.monitoring.windows.WindowFeatures`; samples younger than ``lag_s`` were not looked at.
    """

    system: str
    runs: pd.DataFrame
    features: Mapping[str, pd.DataFrame]
    told: pd.DataFrame | None = None
    truth: np.ndarray | None = None
    generated: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    counts: pd.Series = field(default_factory=lambda: pd.Series(dtype=np.int64))
    interval_s: pd.Series = field(default_factory=lambda: pd.Series(dtype=np.float64))
    lag_s: float = 0.0


def training_table(home: Path, system: str, scopes: Sequence[str] = SCOPES) -> TrainingTable:
    """What was ingested of ``system`` under ``home``, by one pass over each sampler's counters.

    Beside what ``queuecast variability ingest`` keeps there may be a table ``contention`` (``run_id``, ``slowed``, and columns of the true contention),
    which only a simulated cluster can write. Samples that could not yet be read when a run started (``lag_s`` in ``systems.toml``) are not looked
    at. Runs whose nodes are not known, or in whose window no counter was sampled, are left out.
    Without probe results their features are missing. InputError where no control runs or no counters were ingested.
    """
    from pipelines.sources.systems import SIMULATED, lag_of
    from pipelines.storage.counters_store import CountersStore
    from pipelines.storage.run_store import PROBE_RESULTS, RUNS, application_types, stored

    lake = Lake(Path(home) / "lake")
    every = stored(lake, RUNS, system)
    if len(every) == 0:
        raise InputError(f"{lake.path(RUNS, system)}: no control runs of {system}: ingest them first")
    runs = every[every["nodes"].notna()].reset_index(drop=True)
    lag_s = lag_of(Path(home), system)
    found = windows_before(CountersStore(lake.root, system), runs, scopes, lag_s)
    windows = {each: table for each in scopes if (table := getattr(found, each)) is not None}
    sampled = ~np.all([table.isna().all(axis=1).to_numpy() for table in windows.values()], axis=0)
    kept = runs[sampled].reset_index(drop=True)
    if len(kept) == 0:
        raise InputError(
            f"{system}: none of {len(every):,} control runs has known nodes and counters in the {WINDOW_S} s before it started"
        )
    probes, types = stored(lake, PROBE_RESULTS, system), application_types(lake, system)
    features = {each: feature_matrix(table, probes, types, kept).reset_index(drop=True) for each, table in windows.items()}
    told, truth = None, None
    if lake.path("contention", system).exists():
        true = lake.read("contention", system)[0].set_index("run_id").loc[kept["run_id"]].reset_index(drop=True)
        types_of = features[scopes[0]].filter(like="type.")
        told, truth = true.drop(columns="slowed").join(types_of), true["slowed"].to_numpy(np.int64)
    left_out = {"nodes not known": len(every) - len(runs), "no counter sampled in the window": int((~sampled).sum())}
    generated = told is not None or system == SIMULATED
    of_counters: dict[str, Any] = {
        "coverage": found.coverage,
        "counts": found.counts,
        "interval_s": found.interval_s,
        "lag_s": lag_s,
    }
    return TrainingTable(system, kept, features, told, truth, generated, left_out, **of_counters)


def windows_before(store: CountersStore, runs: pd.DataFrame, scopes: Sequence[str], lag_s: float) -> WindowFeatures:
    """What all samplers of ``store`` saw in the window before each of ``runs`` (``run_id nodes start_s``), by ``scopes``; InputError without any."""
    from features.monitoring.windows import side_by_side, window_features

    names = [name for name in SAMPLERS if name in store.samplers] + [name for name in store.samplers if name not in SAMPLERS]
    if not names:
        raise InputError(f"{store.root}: no counters of {store.system}: ingest them first")
    first, last = float(runs["start_s"].min()) - WINDOW_S - LONGEST_INTERVAL_S, float(runs["start_s"].max())
    scope: Any = scopes[0] if len(scopes) == 1 else "both"
    return side_by_side(
        [
            window_features(store.batches(name, first, last), runs, sampler_of(name, store.metrics(name)), lag_s=lag_s, scope=scope)
            for name in names
        ]
    )


@dataclass(frozen=True)
class Evaluated:
    """``said`` as of ``predictions``, ``measures`` of ``measured``, ``own_against_all`` and ``ceilings`` (empty where there is nothing to compare)."""

    said: pd.DataFrame
    measures: pd.DataFrame
    own_against_all: pd.DataFrame
    ceilings: pd.DataFrame
    left_out: Mapping[str, int]


def evaluate(
    table: TrainingTable,
    *,
    names: Sequence[str] = CLASSIFIERS,
    protocols: Sequence[str] = PROTOCOLS,
    thresholds: Sequence[float] = BINARY,
    elimination: bool = False,
    options: Options | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluated:
    """Cross-validate every classifier on every set of features, and say what the same learners reach when told the true contention."""
    sets = dict(table.features) | ({TOLD: table.told} if table.told is not None else {})
    said = predictions(
        sets,
        table.runs,
        names=names,
        protocols=protocols,
        thresholds=thresholds,
        truth=table.truth,
        elimination=elimination,
        options=options,
        seed=seed,
        progress=progress,
    )
    classes = len(thresholds) + 1
    measures = measured(said, classes=classes, seed=seed)
    differences = []
    if all(scope in table.features for scope in SCOPES):
        for (protocol, name), rows in said.groupby(["protocol", "classifier"], sort=False):
            own, every = (rows[rows["features"] == scope] for scope in SCOPES)
            found = difference(own, every, classes=classes, seed=seed)
            identity = pd.DataFrame({"protocol": protocol, "classifier": name}, index=found.index)
            differences.append(pd.concat([identity, found], axis=1))
    ceilings = pd.DataFrame()
    if table.told is not None:
        ceilings = pd.concat(
            [ceiling(measures, TOLD, against=against) for against in ("label", "truth")[: 1 + (table.truth is not None)]]
        )
    no_baseline = {protocol: folds(table.runs, protocol, thresholds=thresholds)[1] for protocol in protocols}
    left_out = {
        **table.left_out,
        **{f"no baseline, or nothing to train on apart from them ({protocol})": count for protocol, count in no_baseline.items()},
    }
    paired = pd.concat(differences, ignore_index=True) if differences else pd.DataFrame()
    return Evaluated(said, measures, paired, ceilings.reset_index(drop=True), left_out)


@dataclass(frozen=True)
class Retrained:
    """What came of a retraining: the versions the aliases point to now, and why.

    ``registered`` lists the new versions and those that serve (``model version method alias f1 judged_runs why``; F1 as recorded when each was registered);
    ``found`` is None for a first champion. ``model`` is the new champion or the best of the new ones, ``model_version`` its number and ``importance`` its
    columns', NaN nowhere; ``left_out`` counts runs that taught nothing. With ``nothing_new`` nothing was registered, and ``model`` is what serves.
    """

    name: str
    champion: str
    challenger: str
    promoted: bool
    why: str
    registered: pd.DataFrame
    found: Comparison | None
    judged_runs: int
    checks: Mapping[str, bool]
    model: VariabilityModel
    model_version: str
    importance: pd.Series
    left_out: Mapping[str, int]
    nothing_new: bool = False


def retrain(
    table: TrainingTable,
    scope: str,
    store: Tracking,
    *,
    names: Sequence[str] = CLASSIFIERS,
    thresholds: Sequence[float] = THREE_CLASSES,
    elimination: bool = False,
    options: Options | None = None,
    seed: int = 0,
    tags: Mapping[str, str] | None = None,
    promote: bool = True,
) -> Retrained:
    """Train candidates on the features of ``scope``, judge them, register, and promote by the rule; the aliases move last.

    Without a champion all ``names`` are registered, judged by cross-validation in blocks of time. With one, candidates and champion are judged on the runs that
    started after all that it learned from had ended, the candidates trained again and again on what came before
    (:func:`models.variability.evaluation.forward`), and the best candidate is registered. A champion that records no training was chosen by hand
    and stays. Over the runs, settings and code that champion or challenger was made from nothing is registered. Not to ``promote`` leaves the aliases to the
    caller. InputError for a champion of another scope.
    """
    from models.registry.registration import rank_candidates, set_aliases, version_at
    from models.registry.variability_registration import VARIABILITY, load_version
    from pipelines.workflows.nothing_new import MADE_FROM, nothing_new

    features, runs, name = table.features[scope], table.runs, VARIABILITY.registered(table.system)
    work = _Work(table, scope, store, tuple(thresholds), elimination, options or {}, seed, dict(tags or {}))
    key = work.key(names)
    work.tags[MADE_FROM] = key
    settings: dict[str, Any] = {"thresholds": thresholds, "elimination": elimination, "options": options, "seed": seed}
    present, note, champion = version_at(store, name, "champion"), "", None
    by_hand = present is not None and "training_window_s" not in present.tags
    if present is not None and not by_hand:
        if present.tags.get("scope", scope) != scope:
            raise InputError(f"{name}@champion looks at {present.tags['scope']} nodes, not {scope}: retrain that scope")
        try:
            champion = load_version(name, str(present.version))
        except InputError as error:
            note = f" The champion before, version {present.version}, is replaced unjudged: {error}."
    if (champion is not None or by_hand) and (before := nothing_new(store, name, key)):
        return work.unchanged(before, champion)
    if present is None or champion is None:
        said = predictions({scope: features}, runs, names=names, protocols=(BLOCKED,), **settings)
        made = {}
        for each in names:
            rows = said[said["classifier"] == each]
            score = float(f1_scores(rows["varies"].to_numpy(bool), rows["varied"].to_numpy(bool)).mean())
            made[each] = work.register(each, (score, len(rows)), _numbers(rows, len(thresholds) + 1, seed))
        ranked, basis = rank_candidates([candidate for candidate, _ in made.values()], VARIABILITY)
        first, second, why = ranked[0], ranked[1] if len(ranked) > 1 else None, f"First champion by {basis}"
        checks = work.checks(first)
        if failed := [check for check, passed in checks.items() if not passed]:
            raise ValueError(f"version {first.version} of {name} cannot become champion: {', '.join(failed)}")
        top, runner_up = first.version, second.version if second else ""
        if present is not None and by_hand:
            note = f" The champion, version {present.version}, records no training, so somebody chose it by hand, and it stays."
            top, runner_up = str(present.version), first.version
        if promote:
            set_aliases(store, name, top, runner_up)
        return work.result(made, top, runner_up, not by_hand, why + note, None, first.judged, checks)

    until = int(present.tags["training_window_s"].split("..")[1])
    start = runs["start_s"].to_numpy(np.int64)
    all_judged = forward(features, runs, until, names=names, **settings)
    theirs = champion.varies(features.iloc[all_judged["row"].to_numpy(np.intp)])
    found_of = {each: _evidence(all_judged, each, theirs, until, int(start.max()), present.tags, len(names)) for each in names}
    recent = (all_judged["start_s"] > start.max() - JUDGED_DAYS * DAY_S).to_numpy(bool)
    judged, theirs = all_judged[recent], theirs[recent]
    varied, day = judged["varied"].to_numpy(bool), judged["start_s"].to_numpy(np.int64) // DAY_S
    scores = {each: float(f1_scores(judged[each].to_numpy(bool), varied).mean()) if len(judged) else float("nan") for each in names}
    sure = [each for each in names if found_of[each].enough] or list(names)
    best = max(sure, key=lambda each: (scores[each] if np.isfinite(scores[each]) else -1.0, -list(names).index(each)))
    found = duel(judged[best].to_numpy(bool), theirs, varied, day, found_of[best], len(names))
    new, model = work.register(best, (scores[best], len(judged)), {f"forward_f1_{each}": score for each, score in scores.items()})
    checks = work.checks(new)
    promoted, reasons = decide(found, int(varied.sum()), checks)
    verb = "Promoted over" if promoted else "Not promoted over"
    why = f"{verb} version {present.version} ({present.tags.get('method')}): {reasons}."
    top, second_place = (new.version, str(present.version)) if promoted else (str(present.version), new.version)
    store.client.update_model_version(name, new.version, description=why)
    if promote:
        set_aliases(store, name, top, second_place)
    return work.result({best: (new, model)}, top, second_place, promoted, why, found, len(judged), checks)


def _evidence(
    judged: pd.DataFrame, name: str, theirs: np.ndarray, until_s: int, last_s: int, tags: Mapping[str, str], candidates: int
) -> Evidence:
    recorded = float(tags.get("judged_f1", "nan"))
    return f1_evidence(
        judged[name].to_numpy(bool),
        theirs,
        judged["varied"].to_numpy(bool),
        judged["start_s"].to_numpy(np.int64),
        since_s=until_s,
        last_s=last_s,
        recorded_f1=recorded if np.isfinite(recorded) else 0.5,
        candidates=candidates,
    )


@dataclass(frozen=True)
class _Work:
    """One retraining: trains on everything, registers, asks back."""

    table: TrainingTable
    scope: str
    store: Tracking
    thresholds: tuple[float, ...]
    elimination: bool
    options: Options
    seed: int
    tags: dict[str, str]

    def register(self, name: str, judged: tuple[float, int], metrics: Mapping[str, float]) -> tuple[Candidate, VariabilityModel]:
        from models.registry.registration import log_and_register
        from models.registry.variability_registration import VARIABILITY, VariabilityContent
        from models.variability.learners import OPTIONS

        known, label, usual = self._taught()
        features, classes = self.table.features[self.scope].iloc[known], len(self.thresholds) + 1
        times = times_of(self.table.runs).take(known)
        given: dict[str, Any] = {"seed": self.seed, "options": self.options.get(name), "classes": classes, "times": times}
        columns = eliminate(name, features, label, **given).columns if self.elimination else None
        model = fit(name, features, label, columns=columns, baselines=usual, **given)
        parameters = {**OPTIONS[name], **self.options.get(name, {}), "elimination": self.elimination}
        content = VariabilityContent(model, self.scope, self.thresholds, self.table.features[self.scope])
        parameters["columns"] = len(model.columns)
        made = log_and_register(
            self.store, VARIABILITY, content, self._training(len(known)), judged, metrics, parameters=parameters, tags=self.tags
        )
        return made, model

    def key(self, names: Sequence[str]) -> str:
        """What tells whether there is something new to learn: data, settings and code."""
        from pipelines.workflows.nothing_new import made_from

        settings = {"names": list(names), "thresholds": self.thresholds, "elimination": self.elimination, "options": self.options}
        return made_from({"runs": self._fingerprint(), "scope": self.scope, "seed": self.seed, **settings})

    def checks(self, made: Candidate) -> dict[str, bool]:
        """What must hold of a version before it may be champion, asked of the version as the registry gives it back."""
        import mlflow

        from models.registry.variability_registration import VARIABILITY

        name = VARIABILITY.registered(self.table.system)
        tagged = self.store.client.get_model_version(name, made.version).tags.get("data_fingerprint") == self._fingerprint()
        try:
            loaded = mlflow.pyfunc.load_model(f"models:/{name}/{made.version}")
            wanted = loaded.metadata.get_input_schema().required_input_names()
            asked = self.table.features[self.scope].tail(_ASKED_BACK)[wanted].reset_index(drop=True)
            answer = pd.DataFrame(loaded.predict(asked)).filter(like="probability_").to_numpy(np.float64)
        except Exception:  # whatever a model raises that does not load or predict, it is no champion
            return {"it loads back and predicts": False, "it carries its data's fingerprint": tagged}
        sums = np.isclose(answer.sum(axis=1), 1.0, rtol=0, atol=1e-9) & (answer >= 0).all(axis=1)
        return {
            "it loads back and predicts": len(answer) == len(asked),
            "it predicts probabilities": bool(sums.all()),
            "it carries its data's fingerprint": tagged,
        }

    def result(
        self,
        made: Mapping[str, tuple[Candidate, VariabilityModel]],
        champion: str,
        challenger: str,
        promoted: bool,
        why: str,
        found: Comparison | None,
        judged_runs: int,
        checks: Mapping[str, bool],
    ) -> Retrained:
        from models.registry.variability_registration import VARIABILITY

        name, titles = VARIABILITY.registered(self.table.system), {champion: "champion", challenger: "challenger"}
        new = {candidate.version: model for candidate, model in made.values()}
        for number in new:
            if number in titles:
                self.store.client.update_model_version(name, number, description=why)
        number = champion if champion in new else next(iter(new))
        registered = self._serving([each for each in (*new, champion, challenger) if each])
        registered["alias"] = [titles.get(str(each), "") for each in registered["version"]]
        importance, left_out = self._importance(new[number]), self.table.left_out
        return Retrained(
            name,
            champion,
            challenger,
            promoted,
            why,
            registered,
            found,
            judged_runs,
            checks,
            new[number],
            number,
            importance,
            left_out,
        )

    def unchanged(self, before: Sequence[ModelVersion], champion: VariabilityModel | None) -> Retrained:
        """What is told where there is nothing to learn: the versions ``before``, those made from the same and those that serve."""
        from models.registry.variability_registration import VARIABILITY, load_version
        from models.registry.versions import aliases

        name = VARIABILITY.registered(self.table.system)
        serving = aliases(self.store, name)
        number = serving["champion"] if champion is not None else str(before[-1].version)
        model = champion if champion is not None else load_version(name, number)
        why = "Nothing new: champion or challenger was made from the same runs by the same code, so nothing was registered."
        registered = self._serving([str(each.version) for each in before])
        shown = registered.set_index("version")["judged_runs"].get(int(number), float("nan"))
        return Retrained(
            name=name,
            champion=serving["champion"],
            challenger=serving.get("challenger", ""),
            promoted=False,
            why=why,
            registered=registered,
            found=None,
            judged_runs=int(shown) if np.isfinite(shown) else 0,
            checks={},
            model=model,
            model_version=number,
            importance=self._importance(model),
            left_out=self.table.left_out,
            nothing_new=True,
        )

    def _serving(self, numbers: Sequence[str]) -> pd.DataFrame:
        from models.registry.variability_registration import VARIABILITY
        from pipelines.workflows.nothing_new import serving

        name = VARIABILITY.registered(self.table.system)
        versions = [self.store.client.get_model_version(name, number) for number in sorted(set(numbers), key=int)]
        return serving(self.store, name, versions, MEASURES)

    def _importance(self, model: VariabilityModel) -> pd.Series:
        from models.variability.learners import permuted_importance

        own = model.importance
        if model.classifier == "knn" and len(model.arrays.rows) == len((taught := self._taught())[0]):
            block = stretches(times_of(self.table.runs).take(taught[0]), taught[1] == model.classes - 1, CUTOFF_FOLDS)
            own = permuted_importance(model.arrays, self.seed, block)
        return pd.Series(own, index=list(model.columns)).sort_values(ascending=False, kind="stable")

    def _taught(self) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
        """Rows of the runs that teach and their labels, int64 [runs], and what is usual for each application."""
        application, runtime = self.table.runs["application"].to_numpy(object), self.table.runs["runtime_s"].to_numpy(np.float64)
        usual = baselines(application, runtime)
        z = z_scores(application, runtime, usual)
        known = np.flatnonzero(~np.isnan(z))
        return known, labels(z[known], self.thresholds), usual

    def _training(self, runs: int) -> Training:
        from models.registry.registration import Training

        start, runtime = self.table.runs["start_s"].to_numpy(np.int64), self.table.runs["runtime_s"].to_numpy(np.float64)
        window = (int(start.min()), int(np.ceil((start + runtime).max())))
        return Training(self.table.system, self._fingerprint(), runs, window, self.table.generated, self.seed)

    def _fingerprint(self) -> str:
        runs = self.table.runs[["application", "start_s", "runtime_s"]].reset_index(drop=True)
        return fingerprint(pd.concat([runs, self.table.features[self.scope].reset_index(drop=True)], axis=1))


def _numbers(rows: pd.DataFrame, classes: int, seed: int) -> dict[str, float]:
    """MLflow metrics of one classifier's predictions."""
    table = measured(rows, classes=classes, seed=seed)
    pooled = table[table["application"] == ALL]
    return {f"blocked_{row['measure']}": float(row["value"]) for row in pooled.to_dict("records")}
