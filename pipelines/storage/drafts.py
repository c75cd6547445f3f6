"""Drafts: versions that are not published yet.

Each is a JSON file that lists the files and models that its run or night has made so far.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from features.errors import InputError
from features.names import check_name
from pipelines.storage.places import at, seen, write
from pipelines.storage.remote import Overtaken, Seen
from pipelines.storage.version import MEND, Draft, Version

OVERTAKEN = "overtaken"
"""Stage of a draft that another version overtook: it has no files any more, and its process gets Overtaken at its next step."""


class Drafts:
    """The drafts of one subject, in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place(self, id: str) -> Path:
        """Return the file of a draft."""
        return self._folder / f"{check_name(id, 'draft')}.json"

    def read(self, id: str) -> tuple[Draft | None, Seen]:
        """Return a draft, or None if there is none, and the content of its file.

        Raises InputError if it is damaged.
        """
        there = seen(self.place(id))
        if there.content is None:
            return None, there
        try:
            fields = json.loads(there.content)
            return Draft(**{**fields, "base": Version(**fields["base"])}), there
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.place(id)}: is damaged: {error}; {MEND}") from error

    def every(self) -> Iterator[Draft]:
        """Yield every draft that can be read, in the order of :meth:`files`."""
        for path in self.files():
            try:
                draft = self.read(path.stem)[0]
            except InputError as error:
                if "is damaged" not in str(error):
                    raise
            else:
                if draft is not None:  # else another process has just published or discarded it
                    yield draft

    def files(self) -> list[Path]:
        """Return the files of all drafts, in order of writing."""
        files = [(held.modified_s, name) for name, held in at(self._folder).listed(self._folder).items() if name.endswith(".json")]
        return [self._folder / name for _, name in sorted(files)]

    def put(self, draft: Draft, there: Seen) -> None:
        """Write a draft; raise Overtaken if its file has changed since ``there`` was read."""
        write(self.place(draft.id), json.dumps(asdict(draft), indent=1), there)

    def remove(self, id: str) -> None:
        """Remove a draft, if it is there."""
        at(self._folder).removed(self.place(id))

    def end(self, id: str) -> None:
        """Mark a draft as overtaken, without files; its process gets Overtaken at its next step."""
        draft, there = self.read(id)
        if draft is not None:
            with suppress(Overtaken):  # its process has just changed it; a later sweep ends it
                self.put(replace(draft, stage=OVERTAKEN, files={}, models={}), there)
