"""Declarations, policies, and the run-time side of the metadata."""
