"""The stages as assets, one file per stage: read, call a pure function, write, report."""

from pipelines.readers import site_file

site_file.apply()
