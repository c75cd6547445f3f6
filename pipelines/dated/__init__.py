"""A day of a subject, run or night: train, judge, promote, simulate, compare, publish."""
