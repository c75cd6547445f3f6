"""Reacting users: sessions, batches, think times, and loops open, closed and semi-open."""
