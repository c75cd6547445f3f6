"""The pointer of a subject: the one file that readers follow, replaced atomically.

``<lake>/current/<subject>.json`` names the current version, the one before, and those that readers may still hold. A copy beside
it, ``<subject>.followed``, is the pointer of the version that aliases and pages follow.
"""

import json
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from features.errors import InputError
from pipelines.storage.places import at, seen, write
from pipelines.storage.remote import Overtaken, Seen
from pipelines.storage.version import MEND, Version, keep_s, older, parsed, pointer_text


class Pointer:
    """The pointer of ``subject`` in the lake at ``root``."""

    def __init__(self, root: Path, subject: str) -> None:
        self.root = root
        self.place = root / "current" / f"{subject}.json"
        self._copy = root / "current" / f"{subject}.followed"

    def kept(self, there: Seen) -> tuple[Version, Version]:
        """Return the current version and the one before; raise InputError if damaged.

        ``there`` is the content of its file.
        """
        if there.content is None:
            return Version(), Version()
        try:
            return parsed(there.content)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.place}: is damaged: {error}; {MEND}") from error

    def replaced(self) -> list[tuple[float, Version]]:
        """Return versions that readers may still hold, with Unix times of their replacement.

        They are older than the one before the current one, and have only the files that these two do not list.
        """
        there = seen(self.place)
        self.kept(there)
        former = [] if there.content is None else older(there.content)
        since = at(self.root).now_s(self.root) - keep_s(self.root) if former else 0.0
        return [(until, version) for until, version in former if until > since]

    def put_once(self, version: Version, before: Version, there: Seen) -> None:
        """Put the pointer; raise Overtaken unless an attempt with a lost answer had put it."""
        try:
            self.put(version, before, there)
        except Overtaken:
            every = (*self.kept(seen(self.place)), *(each for _, each in self.replaced()))
            if version.version not in {each.version for each in every}:
                raise

    def put(self, version: Version, before: Version, there: Seen) -> None:
        """Replace the pointer; raise Overtaken if it has changed since ``there`` was read."""
        former: list[dict[str, object]] = []
        with suppress(ValueError, KeyError, TypeError):  # a damaged pointer lists none
            if there.content is not None:
                now, named = at(self.root).now_s(self.root), ("", version.version, before.version)
                went = [(now, each) for each in parsed(there.content) if each.version not in named]
                listed = {*version.files.values(), *before.files.values()}
                for until, each in went + older(there.content):
                    if until > now - keep_s(self.root):
                        own = {entry: file for entry, file in each.files.items() if file not in listed}
                        former.append({"until": until, "version": asdict(replace(each, files=own))})
        write(self.place, pointer_text(version, before, former), there)

    def copied(self) -> tuple[Version, Version] | None:
        """Return the versions in the copy, or None if there is no readable one."""
        try:
            content = seen(self._copy).content
            return None if content is None else parsed(content)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def copy(self, version: Version, before: Version) -> None:
        """Write the copy: aliases and pages follow ``version``."""
        write(self._copy, pointer_text(version, before))

    def follows(self) -> str:
        """Return the version in the copy, "" if there is no copy."""
        content = seen(self._copy).content
        if content is None:
            return ""
        try:
            return str(json.loads(content)["current"]["version"])
        except (ValueError, KeyError, TypeError):  # damaged: it is written again
            return content.decode("utf-8", errors="replace")
