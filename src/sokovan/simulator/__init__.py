"""Runs scenarios through the real scheduler, to try a policy first."""
