"""Runs kernels as processes of this machine, each under a shim that outlives the agent."""
