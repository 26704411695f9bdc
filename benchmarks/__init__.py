"""Benchmarks: one runnable module per claim about speed."""
