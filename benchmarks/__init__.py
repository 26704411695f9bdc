"""Benchmarks: one runnable file per claim."""
