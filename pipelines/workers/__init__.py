"""Where many simulations run: threads here, a Dask cluster, jobs of a batch system."""
