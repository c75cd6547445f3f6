"""The stages as assets, one file a stage: read, call one pure function, write, say what came of it."""
