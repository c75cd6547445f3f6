"""Classifiers of performance variation, and how good they are."""
