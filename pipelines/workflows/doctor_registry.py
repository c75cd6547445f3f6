"""Find what is wrong with the registry and Dagster's runs of a home directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from features.errors import InputError
from pipelines.storage.database import DATABASE
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import aliases_of, alone, finish, lock_of
from pipelines.storage.version import Version
from pipelines.storage.versions import Versions

if TYPE_CHECKING:
    from dagster import DagsterInstance
    from mlflow.entities import LoggedModel, Run
    from mlflow.entities.model_registry import ModelVersion

    from models.registry.tracking import Tracking


BY_HAND = "by hand"


@dataclass(frozen=True)
class Finding:
    """State something wrong: ``part`` of the home, ``where``, ``what``, how to ``mend`` it.

    ``repair`` does that; without one it is for a person.
    """

    part: str
    where: str
    what: str
    mend: str
    repair: Callable[[], object] | None = None


def aliases_follow(home: Path, versions: Versions, subject: str, store: Tracking, current: Version) -> Iterator[Finding]:
    from models.registry.registration import version_at
    from models.registry.versions import aliases

    champion = current.models.get("champion", "")
    if champion and version_at(store, subject, champion) is None:
        if version_at(store, subject) is None:
            what = f"the registry has no version {champion}, the champion that was published; a backup brings it back"
            yield Finding(
                "registry",
                subject,
                what,
                "begin anew without a champion",
                partial(versions.put, replace(current, models={}), Version()),
            )
        return
    lake = Lake(home / "lake")
    if versions.under_way:
        what = f"{current.made_by or 'a run'} died while it was published"
        yield Finding("registry", subject, what, "let aliases and pages follow it", partial(finish, lake, store, subject))
    elif champion and "champion" not in aliases(store, subject):
        what = f"no alias champion, though version {champion} was published"
        yield Finding("registry", subject, what, "set the aliases again", lambda: aliases_of(store, subject)(current.models))


def left_versions(home: Path, versions: Versions, subject: str, store: Tracking, current: Version) -> Iterator[Finding]:
    """Find versions that were registered after the last publication."""
    from models.registry.versions import REFRESHED_FROM, aliases, all_versions

    every = all_versions(store, subject)
    named = {*aliases(store, subject).values(), *current.models.values()}
    named |= {each.tags[REFRESHED_FROM] for each in every if REFRESHED_FROM in each.tags and str(each.version) in named}
    named |= {number for draft in versions.drafts() for number in draft.models.values()}
    published_ms = (versions.root / "current" / f"{subject}.json").stat().st_mtime * 1000 if current.version else 0.0
    left = [
        each
        for each in every
        if str(each.version) not in named and each.creation_timestamp > published_ms and "dagster_run_id" in each.tags
    ]
    if left and not versions.drafts():
        numbers = ", ".join(sorted((str(each.version) for each in left), key=int))
        what = f"versions {numbers} were registered and never published"
        yield _of_the_registry(home, store, subject, what, "remove them with their files", lambda: _remove(store, left))


def _remove(store: Tracking, left: list[ModelVersion]) -> None:
    from models.registry.versions import remove

    for each in left:
        remove(store, each)


# runs in state RUNNING


def runs_of_the_registry(home: Path, store: Tracking) -> Iterator[Finding]:
    """Find runs left unended, and models without any version."""
    from models.registry.versions import REGISTERED_MODEL, all_versions

    runs = store.client.search_runs([store.experiment_id], "attributes.status = 'RUNNING'")
    dead = [run for run in runs if _nothing_works_on(home, run.data.tags.get(REGISTERED_MODEL, ""))]
    if dead:
        what = (
            f"{len(dead):,} runs in state RUNNING whose process is gone: {', '.join(run.info.run_name or '' for run in dead[:3])}"
        )
        yield _of_the_registry(home, store, "runs", what, "mark them as killed", lambda: _end(store, dead))
    ended = {run.info.run_id: run for run in store.client.search_runs([store.experiment_id], "attributes.status != 'RUNNING'")}
    models = [model for model in _logged(store) if (run := ended.get(model.source_run_id or "")) and run.info.status != "FINISHED"]
    names = {ended[model.source_run_id].data.tags.get(REGISTERED_MODEL, "") for model in models if model.source_run_id}
    used = {
        each.model_id or (each.source or "").removeprefix("models:/")
        for name in names
        if name
        for each in all_versions(store, name)
    }
    if left := [model for model in models if model.model_id not in used]:
        what = f"{len(left):,} models logged by runs that were killed, in no version"
        yield _of_the_registry(home, store, "models", what, "remove them with their files", lambda: _forget(store, left))


def _of_the_registry(home: Path, store: Tracking, where: str, what: str, mend: str, repair: Callable[[], object]) -> Finding:
    """Return a finding that is repaired in the home's own registry only: in another one, other machines may be at work."""
    if store.uri == f"sqlite:///{home / 'mlflow.db'}":
        return Finding("registry", where, what, mend, repair)
    return Finding("registry", where, what, f"{BY_HAND}: {mend}, unless they are those of another home with this registry")


def _logged(store: Tracking) -> Iterator[LoggedModel]:
    page = None
    while page is None or page:
        answer = store.client.search_logged_models([store.experiment_id], page_token=page)
        yield from answer
        page = answer.token or ""


def _nothing_works_on(home: Path, model: str) -> bool:
    if not model:
        return False
    try:
        with alone(home, lock_of(model)):
            return True
    except InputError:
        return False


def _end(store: Tracking, runs: list[Run]) -> None:
    for run in runs:
        store.client.set_terminated(run.info.run_id, "KILLED")


def _forget(store: Tracking, models: list[LoggedModel]) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    for model in models:
        get_artifact_repository(model.artifact_location, tracking_uri=store.uri).delete_artifacts()
        store.client.delete_logged_model(model.model_id)


def run_state(home: Path, run_id: str) -> str:
    """Return a Dagster run's state, "gone" for one whose process is, "" for an unknown one."""
    import dagster as dg

    from pipelines.storage.instance import PROCESS_TAG, is_gone

    if (opened := _instance(home)) is None:
        return ""
    with opened as instance:
        run = instance.get_run_by_id(run_id)
        again = instance.get_runs(dg.RunsFilter(tags={"dagster/root_run_id": run_id}))
    if run is None:
        return ""
    # a run that goes on with a failed one has its draft
    run = next((each for each in again if not each.is_finished), run)
    return "gone" if not run.is_finished and is_gone(run.tags.get(PROCESS_TAG, "")) else str(run.status.value)


def runs_of_dagster(home: Path) -> Iterator[Finding]:
    """Find runs of commands that are not finished, though their process is gone."""
    import dagster as dg

    from pipelines.storage.instance import PROCESS_TAG, is_gone

    if (opened := _instance(home)) is None:
        return
    unfinished = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.NOT_STARTED]
    )
    with opened as instance:
        runs = instance.get_runs(unfinished)
    dead = [run for run in runs if is_gone(run.tags.get(PROCESS_TAG, ""))]

    def end() -> None:
        if (opened := _instance(home)) is not None:
            with opened as instance:
                for run in dead:
                    instance.report_run_failed(run, "its process was killed")

    if dead:
        what = f"{len(dead):,} runs in state {dead[0].status.value} whose process is gone: {', '.join(run.run_id[:8] for run in dead[:3])}"
        yield Finding("dagster", "runs", what, "mark them as failed", end)


def _instance(home: Path) -> DagsterInstance | None:
    """Open the Dagster instance of ``home``, the site's own one for the site's home; None where there is none."""
    import dagster as dg

    from pipelines.storage.home import home as site
    from pipelines.storage.home import local_home
    from pipelines.storage.instance import instance

    ours = home.resolve() == site().resolve()
    own = local_home() if ours else home
    ready = (own / "dagster" / ".ready").exists()
    if ours and (ready or os.environ.get("DAGSTER_HOME") or os.environ.get(DATABASE)):
        return instance()
    return dg.DagsterInstance.from_config(str(own / "dagster")) if ready else None
