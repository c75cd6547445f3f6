"""The recipe of a server, run: PostgreSQL, an S3 server, MLflow, Dagster's daemon and web server, a Dask cluster.

``make server-test`` runs it; ``make test`` does not. Every process is one of ours, on the loopback interface and a free port, and is
stopped by its process id.
"""
