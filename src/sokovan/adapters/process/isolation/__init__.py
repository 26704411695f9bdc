"""Isolation of kernels: sandbox, control groups and resource limits."""
