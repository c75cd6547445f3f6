"""Assets outside the graph: a site's files, and the models that consumers load."""

import dagster as dg

TRACE_FILE, LDMS_DIRECTORY, RUN_FILES = "trace_file", "ldms_directory", "control_run_files"
MODELS = {"runtime": "published_trace", "policy": "published_trace", "start": "start_model", "variability": "published_system"}
"""The asset that moves the aliases, by kind of registered model."""
_FILES = {
    TRACE_FILE: ("ingest", "A trace as the site has it: an SWF log, or Slurm's accounting."),
    LDMS_DIRECTORY: ("ingest", "A system's counters as LDMS writes them: a directory of CSV files."),
    RUN_FILES: ("ingest", "A system's tables of control runs, probe results and types of applications."),
}

external = [
    *(dg.AssetSpec(name, group_name=group, kinds={"file"}, description=text) for name, (group, text) in _FILES.items()),
    *(
        dg.AssetSpec(
            f"registered_{kind}",
            deps=[last],
            group_name="registry",
            kinds={"mlflow"},
            description=f"The versions {kind}-<subject> of the model registry, which consumers load by the alias champion.",
        )
        for kind, last in MODELS.items()
    ),
]
