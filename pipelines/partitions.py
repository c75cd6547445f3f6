"""One partition a trace; the keys are trace names, added when a trace is first run."""

import dagster as dg

traces = dg.DynamicPartitionsDefinition(name="traces")
