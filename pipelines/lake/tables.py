"""The lake: Parquet tables by kind and trace, written atomically, with metadata.

The table ``runtime_features`` has what was known at each submission, and from which starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.errors import Damaged, InputError, check_name
from features.jobs.cleaning import CleanTrace
from features.jobs.runtime_features import FEATURES
from features.jobs.schema import fingerprint
from models.packed.site_names import VARIABLE
from models.registry.candidates import Accounting, accounting
from pipelines.lake.files import read_parquet, told_of, write_parquet
from pipelines.lake.places import exists, read, write
from pipelines.lake.version import GROWING, MEND, MODELS, OF_BOTH, PAGES, Version, models_text, subject_of
from pipelines.lake.versions import Versions, is_whole
from sim.machine.description import Machine
from sim.simulation import history_starts

_CLEAN_FIELDS = (
    "name",
    "procs",
    "origin_unix_s",
    "timezone",
    "generated",
    "missing_request",
    "jobs_read",
    "source",
    "notes",
    "hashed_with",
)
_REPEATED = ("origin_unix_s", "compared_with")
_BESIDE = "beside"
"""Metadata: columns that repeat metadata in each row, so that a table is understood by any program; :meth:`Lake.read`
drops them."""


@dataclass(frozen=True)
class Lake:
    """Tables under ``root`` by kind and by trace or system.

    A run or night names itself as ``maker``: it reads what was made last
    (:meth:`pipelines.lake.versions.Versions.draft`), and writes beside it. What it has read through this object is
    noted as what it writes is made from. Without a maker, and if a subject grows row by row, published tables are read,
    and a written table is published at once. Of tables that traces and systems have, it reads and writes those of a
    ``system``, or of a trace.
    """

    root: Path
    maker: str = ""
    system: bool = False
    seen: tuple[str, Version] | None = None
    _used: dict[str, dict[str, str]] = field(default_factory=dict, repr=False, compare=False)

    def at_once(self, subject: str) -> Lake:
        """Return this lake with the tables of ``subject`` as they are now.

        Reads that belong together then see one version, whatever is published meanwhile.
        """
        return self if self._drafts(subject) else replace(self, seen=(subject, self.versions(subject).current()))

    def published(self) -> Lake:
        """Return the lake as readers see it; what is read there is not noted.

        A history, such as the table of nights, goes on from what was published.
        """
        return Lake(self.root, system=self.system)

    def versions(self, subject: str) -> Versions:
        """Return the versions of ``runtime-<trace>`` or ``variability-<system>``."""
        return Versions(self.root, subject)

    def has(self, table: str, trace: str) -> bool:
        """Tell whether there is a table to read."""
        return self._listed(table, trace) is not None and exists(self.path(table, trace))

    def path(self, table: str, trace: str) -> Path:
        """Return the path of a table.

        Raises InputError unless ``trace`` is a name, and for a table that the current version does not have.
        """
        file = self._listed(table, trace)
        if file is None:
            raise InputError(
                f"{self.root / table}: the current version of {trace} has none; materialise {table} of {trace} first, as queuecast run does"
            )
        return self.root / file

    def write(self, table: str, trace: str, frame: pd.DataFrame, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write ``frame`` and return its file; ``metadata`` is anything JSON can hold.

        Without a maker it is published at once.
        """
        subject = self._subject(table, trace)
        versions, part = self.versions(subject), self.part(table, trace, frame, metadata)
        if self._drafts(subject):
            path = versions.add(table, part, self.maker, self._made_from(subject))
        else:
            version = versions.commit({table: part})
            versions.sweep()
            path = self.root / version.files[table]
        self._note(table, subject, path)
        return path

    def part(self, table: str, trace: str, frame: pd.DataFrame, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write ``frame`` to a new local file; return it.

        It is for :meth:`pipelines.lake.versions.Versions.commit`.
        """
        subject, facts = self._subject(table, trace), {"trace": trace, **(metadata or {})}
        part = self.versions(subject).part(table)
        kind = "trace" if subject.startswith("runtime-") else "system"
        repeated: dict[str, Any] = {"kind": kind, "subject": trace} if table in OF_BOTH else {kind: trace}
        repeated |= {name: facts[name] for name in _REPEATED if facts.get(name) is not None}
        beside = {name: _same(value, len(frame)) for name, value in repeated.items() if name not in frame}
        write_parquet(frame.assign(**beside), part, kind=table, metadata={**facts, _BESIDE: [*beside]})
        return part

    def _subject(self, table: str, trace: str) -> str:
        return subject_of(table, check_name(trace, "lake"), self.system)

    def _drafts(self, subject: str) -> bool:
        """Tell whether tables of ``subject`` are read from and written to its draft."""
        return self.maker != "" and subject.partition("-")[0] not in GROWING

    def _made_from(self, subject: str) -> dict[str, str]:
        return self._used.get(subject, {})

    def _note(self, entry: str, subject: str, value: Path | str) -> None:
        """Note what was read or written last: what is written later is made from it."""
        text = value if isinstance(value, str) else value.relative_to(self.root).as_posix()
        self._used.setdefault(subject, {})[entry] = text

    def write_page(self, page: str, subject: str, content: str | bytes) -> Path:
        """Write a page of ``subject``, or a file beside it, into the draft.

        Returns the path at which it is shown once published.
        """
        versions, entry = self.versions(subject), f"{PAGES}{page}"
        part = versions.part(entry)
        write(part, content)
        versions.add(entry, part, self.maker, self._made_from(subject))
        return self.root.parent / entry

    def name_models(self, subject: str, models: Mapping[str, str]) -> None:
        """Name the draft's registered versions by alias; aliases are set when it is published."""
        self.versions(subject).name_models(models, self.maker, self._made_from(subject))
        self._note(MODELS, subject, models_text(models))

    def models(self, subject: str) -> Mapping[str, str]:
        """Return the registered versions of the tables that are read, by alias; may be empty.

        If ``versions(subject).follows``, an alias that differs was moved by hand.
        """
        versions = self.versions(subject)
        models = (versions.draft() if self.maker else versions.current()).models
        self._note(MODELS, subject, models_text(models))
        return models

    def read(self, table: str, trace: str) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return a table and its metadata; InputError if missing, damaged or of another format."""
        path = self.path(table, trace)
        with told_of(path):
            content = read(path)
        if content is None:
            raise InputError(f"{path}: is missing, although the version of {trace} names it; {MEND}")
        if not is_whole(path, content):
            raise Damaged(f"{path}: is damaged: its content does not match the hash in its name; {MEND}")
        self._note(table, self._subject(table, trace), path)
        try:
            frame, metadata = read_parquet(path, kind=table, content=content)
            return frame.drop(columns=metadata.pop(_BESIDE, [])), metadata
        except Damaged as error:
            raise Damaged(f"{error}; {MEND}") from error

    def _listed(self, table: str, trace: str) -> str | None:
        """Return the file of a table, relative to the lake; None if there is none."""
        subject = self._subject(table, trace)
        versions = self.versions(subject)
        if self._drafts(subject):
            return versions.draft().files.get(table)
        seen = self.seen[1] if self.seen is not None and self.seen[0] == subject else versions.current()
        return seen.files.get(table)

    def write_for(self, clean: CleanTrace, table: str, frame: pd.DataFrame, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write a table made from ``clean``, with its jobs' fingerprint and ``generated``."""
        return self.write(
            table,
            clean.name,
            frame,
            {
                "origin_unix_s": clean.origin_unix_s,
                **(metadata or {}),
                "jobs": fingerprint(clean.jobs),
                "generated": clean.generated,
            },
        )

    def read_for(self, clean: CleanTrace, table: str) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return a table made from ``clean``; raise InputError if made from other jobs."""
        frame, metadata = self.read(table, clean.name)
        if metadata.get("jobs") != fingerprint(clean.jobs):
            raise InputError(
                f"{self.path(table, clean.name)}: was made from other jobs than {clean.name} has now: materialise {table} first"
            )
        return frame, metadata

    def _stored(self, trace: str) -> dict[str, Any]:
        """Return the metadata of the published jobs, {} without any that can be read."""
        published = self.published()
        if published.has("jobs", trace):
            with suppress(InputError):  # a damaged table is replaced
                return published.read("jobs", trace)[1]
        return {}

    def write_clean(self, clean: CleanTrace) -> CleanTrace:
        """Write a cleaned trace: tables ``jobs`` and ``rejected_jobs``.

        Return it with seconds from the origin of the stored jobs, if there are any: accounting counts from its first
        submission, which moves when it loses or gains old jobs, and nights, answers and models keep their seconds.
        Raises InputError if the stored names are hashed, and these are not or with another key.
        """
        stored = self._stored(clean.name)
        before = stored.get("hashed_with", "")
        if before and before != clean.hashed_with:
            other = f"with another key than ${VARIABLE}" if clean.hashed_with else f"and ${VARIABLE} is not set"
            raise InputError(f"{clean.name}: its stored names are hashed, {other}: set the key that hashed them")
        clean = clean.counted_from(stored.get("origin_unix_s"))
        self.write_for(clean, "rejected_jobs", clean.rejected_jobs)
        machine = clean.machine and clean.machine.record
        self.write_for(clean, "jobs", clean.jobs, {name: getattr(clean, name) for name in _CLEAN_FIELDS} | {"machine": machine})
        return clean

    def read_clean(self, trace: str) -> CleanTrace:
        """Return the cleaned trace that :meth:`write_clean` wrote."""
        seen = self.at_once(subject_of("jobs", trace))
        jobs, metadata = seen.read("jobs", trace)
        rejected, _ = seen.read("rejected_jobs", trace)
        fields = {name: metadata[name] for name in _CLEAN_FIELDS}
        machine = metadata["machine"] and Machine.of_record(metadata["machine"])
        fields |= {"notes": tuple(fields["notes"]), "machine": machine}
        return CleanTrace(jobs=jobs, rejected_jobs=rejected, **fields)


def _same(value: str | int, rows: int) -> Any:
    """Return a column with one value, int64 or a category."""
    if isinstance(value, int):
        return np.full(rows, value, np.int64)
    return pd.Categorical.from_codes(np.zeros(rows, np.int8), pd.Index([value], dtype="str"))


KEYS = ("job_id", "user", "submit_s")


def features_of(clean: CleanTrace) -> Accounting:
    """Return the accounting of a cleaned trace, whose features are computed now."""
    start_s, source = history_starts(clean.jobs, clean.procs)
    return accounting(clean.jobs, start_s, clean.origin_unix_s, clean.timezone, source)


def keep_features(lake: Lake, clean: CleanTrace) -> Accounting:
    """Write ``runtime_features`` of ``clean`` with its starts, and return its accounting."""
    records = features_of(clean)
    table = pd.concat([clean.jobs[list(KEYS)], records.features], axis=1).assign(start_s=records.start_s)
    lake.write_for(clean, "runtime_features", table, {"starts": records.source})
    return records


def read_features(lake: Lake, clean: CleanTrace) -> Accounting:
    """Return the accounting of ``clean`` with ``runtime_features`` as the lake keeps it."""
    table, marks = lake.read_for(clean, "runtime_features")
    start_s = table["start_s"].to_numpy(np.int64)
    return Accounting(clean.jobs, start_s, table[list(FEATURES)], clean.origin_unix_s, clean.timezone, marks["starts"])
