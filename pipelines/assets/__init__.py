"""The stages as assets, one file a stage: read, call one pure function, write, report."""

from pipelines.storage import site

site.apply()
