"""Events, hints and agent states inside one process, for the embedded mode."""
