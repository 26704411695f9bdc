"""Events, hints and agent states within one process, for the embedded mode."""
