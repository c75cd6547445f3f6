"""The stages as assets, one file a stage: read, call one pure function, write, report."""

from pipelines.sources import site_file

site_file.apply()
