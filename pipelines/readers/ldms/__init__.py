"""LDMS CSV files, read in blocks and taken into the store of counters."""
