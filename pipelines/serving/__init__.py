"""Registered models over HTTP: questions, loaded versions, answers and their log."""
