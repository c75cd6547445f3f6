"""Users who react: sessions, batches and think times of a trace, and loops open, closed and semi-open."""
