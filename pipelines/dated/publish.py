"""The work of a run or night on its draft: begun, in stages, published whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models.registry.tracking import Tracking
from models.registry.versions import Keep
from pipelines.storage.lake import Lake
from pipelines.storage.places import write
from pipelines.storage.publishing import NIGHTS, begin_night, finish, publish
from pipelines.storage.registry import kept_versions, pruned
from pipelines.storage.versions import PUBLISHED, Versions


@dataclass(frozen=True)
class Work:
    """Where a run or night of ``subject`` reads and writes: a draft of ``lake``, a registry.

    ``night`` is the day of a night, "" of a run; ``run_id`` is the Dagster run that versions name, "" of a ``command``.
    """

    lake: Lake
    store: Tracking
    subject: str
    night: str = ""
    run_id: str = ""
    command: str = ""

    @property
    def tags(self) -> dict[str, str]:
        """Return what versions say of what registered them."""
        tags = {"dagster_run_id": self.run_id, "night": self.night}
        return {name: value for name, value in tags.items() if value}

    @property
    def made_by(self) -> str:
        """Return what a publication says of what made it."""
        return self.command or (f"{NIGHTS}{self.night}" if self.night else f"run {self.run_id}")

    def begin(self) -> list[str]:
        """Finish what a dead process was publishing; a night discards what dead nights left.

        Return a line for each. Call it with the lock of the subject.
        """
        if self.night:
            return begin_night(self.lake, self.store, self.subject)
        finish(self.lake, self.store, self.subject)
        return []

    @contextmanager
    def stage(self, does: str) -> Iterator[None]:
        """Note how far a night is, and on errors where they happened."""
        with night_stage(self.lake.versions(self.subject), self.lake.draft, self.night, does):
            yield

    def publish(self) -> None:
        """Publish the draft; InputError where another version came first.

        Call it with the lock of the subject.
        """
        publish(self.lake, self.subject, self.made_by, self.store)

    def tidy(self, keep: Keep | None = None) -> str:
        """Remove old registered versions, but what ``keep`` or else the site keeps; say what went."""
        return pruned(self.store, self.subject, keep or kept_versions())


@contextmanager
def night_stage(versions: Versions, draft: str, night: str, does: str) -> Iterator[None]:
    """Note in the draft of a ``night`` how far it is, and on errors where they happened."""
    if not night:
        yield
        return
    versions.note(draft, made_by=f"{NIGHTS}{night}", stage=does)
    with noted(does, night, versions.name):
        yield


@contextmanager
def noted(does: str, night: str, name: str) -> Iterator[None]:
    """Note on errors in which stage of which night they happened."""
    try:
        yield
    except Exception as error:
        error.add_note(f"night {night} of {name}, while {does}")
        raise


def tell_failure(home: Path, trace: str, night: str, error: Exception) -> None:
    """Leave a line beside the pages that says why the night failed, and what readers see now."""
    notes = getattr(error, "__notes__", [])
    where = next((each for each in notes if each.startswith(f"night {night} ")), f"night {night} of {trace}")
    cause = " ".join(str(error).split()) or type(error).__name__
    now = PUBLISHED if PUBLISHED in notes else "champion, tables and reports stay those of the night before"
    path = home / "reports" / "nights" / trace / f"{night}.failed.txt"
    write(path, f"{where}: {cause}; {now}\n")
