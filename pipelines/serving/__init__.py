"""Registered runtime models over HTTP: what is asked, what is loaded, what was answered."""
