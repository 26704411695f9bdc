"""Runs written-down clusters through the real core, to try a policy first."""
