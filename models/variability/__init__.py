"""Classifiers of performance variation, and measures of their quality."""
