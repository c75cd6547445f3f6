"""Let the places of artifacts in MLflow's database follow a home that was moved.

They are absolute: MLflow makes each location absolute when it is recorded, and resolves relative ones (``mlflow-artifacts:``) by a server alone.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from mlflow.utils.file_utils import local_file_uri_to_path

_RECORDED = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "storage_location"),
    ("model_versions", "source"),
)
_OUR_PLACES = """
SELECT DISTINCT artifact_location FROM experiments JOIN experiment_tags USING (experiment_id)
WHERE key = 'queuecast' AND artifact_location LIKE 'file:%'
"""


def rewrite(database: Path, artifacts: str) -> str:
    """Record that artifacts lie at the URI ``artifacts``; return where they lay.

    Returns "" if that was recorded already. Raises OSError if the database cannot be read or written.
    """
    try:
        with closing(sqlite3.connect(database)) as store, store:
            former = [place for (place,) in store.execute(_OUR_PLACES) if not _is_same(place, artifacts)]
            for place in former:
                for table, column in _RECORDED:
                    store.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR instr({column}, ?) = 1",
                        (artifacts, len(place) + 1, place, f"{place}/"),
                    )
    except sqlite3.Error as error:
        raise OSError(str(error)) from error
    return local_file_uri_to_path(former[0]) if former else ""


def is_below(location: str, folder: str) -> bool:
    """Tell whether an artifact location lies below another one, for files by real paths."""
    if not folder.startswith(("file:", "/")):
        return location.startswith(f"{folder}/") and ".." not in location.split("/")
    if not location.startswith(("file:", "/")):
        return False
    path, root = (Path(local_file_uri_to_path(place)).resolve() for place in (location, folder))
    return path != root and path.is_relative_to(root)


def _is_same(place: str, artifacts: str) -> bool:
    """Tell whether two URIs are the same folder, which may have two names by a link."""
    paths = [local_file_uri_to_path(uri) for uri in (place, artifacts)]
    return place == artifacts or (all(map(os.path.exists, paths)) and os.path.samefile(*paths))
