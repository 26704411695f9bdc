"""Runs kernels as processes, each under a shim that outlives the agent."""
