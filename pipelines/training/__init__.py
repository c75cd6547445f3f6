"""A run or a night up to its cutoff: train, judge, promote, simulate, publish."""
