"""The repositories: one per port, and the only way a status or an amount moves."""
