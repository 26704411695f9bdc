"""Lifecycles as transition tables, one row per legal transition."""
