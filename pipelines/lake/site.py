"""Settings of a site in environment variables.

:mod:`pipelines.readers.site_file` puts the values of its settings file there.
"""

REGISTRY = "MLFLOW_TRACKING_URI"
VARIABLES = {
    "lake": "QUEUECAST_LAKE",
    "database": "QUEUECAST_DATABASE",
    "registry": REGISTRY,
    "on": "QUEUECAST_ON",
}
"""Keys of [site], and the environment variables that take precedence over them."""
