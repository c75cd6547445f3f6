"""Reacting users: batches, think times, and the closed loop."""
