"""The work of a run or night on a subject: begin it, do stages, publish what they made."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models.registry.tracking import Tracking
from models.registry.versions import Keep
from pipelines.storage.lake import Lake
from pipelines.storage.places import write
from pipelines.storage.publishing import NIGHTS, finish, publish
from pipelines.storage.registry import kept_versions, pruned
from pipelines.storage.versions import Published


@dataclass(frozen=True)
class Work:
    """Where a run or night of ``subject`` reads and writes: a lake and a registry.

    ``night`` is the day of a night, "" for a run. ``run_id`` is the Dagster run that versions record, "" for a ``command``.
    """

    lake: Lake
    store: Tracking
    subject: str
    night: str = ""
    run_id: str = ""
    command: str = ""

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags that record on a version which run or night registered it."""
        tags = {"dagster_run_id": self.run_id, "night": self.night}
        return {name: value for name, value in tags.items() if value}

    @property
    def made_by(self) -> str:
        """Return the origin that a publication records: a command, a night or a run."""
        return self.command or (f"{NIGHTS}{self.night}" if self.night else f"run {self.run_id}")

    def begin(self) -> list[str]:
        """Set the aliases of what was published before, if that failed then; return a line on it.

        The caller must hold the lock of the subject.
        """
        line = finish(self.lake, self.store, self.subject)
        return [line] if line else []

    @contextmanager
    def stage(self, does: str) -> Iterator[None]:
        """Add the stage of a night to errors as a note."""
        with noted(does, self.night, self.lake.versions(self.subject).name):
            yield

    def publish(self, accepted: Callable[[str], bool] | None = None) -> Published:
        """Publish what this run or night, or all ``accepted`` makers, have made.

        The caller must hold the lock of the subject.
        """
        return publish(self.lake, self.subject, self.made_by, self.store, accepted)

    def tidy(self, keep: Keep | None = None) -> str:
        """Remove registered versions that ``keep``, by default the site's, drops; list them."""
        return pruned(self.store, self.subject, keep or kept_versions())


@contextmanager
def noted(does: str, night: str, name: str) -> Iterator[None]:
    """Add the stage ``does`` and the night, if it is one, to errors as a note."""
    try:
        yield
    except Exception as error:
        if night:
            error.add_note(f"night {night} of {name}, while {does}")
        raise


def tell_failure(home: Path, trace: str, night: str, error: Exception) -> None:
    """Write a line beside the pages: why the night failed, and what readers see now."""
    notes = getattr(error, "__notes__", [])
    where = next((each for each in notes if each.startswith(f"night {night} ")), f"night {night} of {trace}")
    cause = " ".join(str(error).split()) or type(error).__name__
    path = home / "reports" / "nights" / trace / f"{night}.failed.txt"
    write(path, f"{where}: {cause}; champion, tables and reports stay those of the night before\n")
