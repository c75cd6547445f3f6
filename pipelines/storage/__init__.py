"""Tables and models at rest: lake, stores of counters and runs, the model registry."""
