"""Prometheus' text: totals, single objects, and families by name."""
