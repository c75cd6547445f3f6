"""When a job starts: states of a queue, chances by bins of time, calibration."""
