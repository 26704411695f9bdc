"""Resource usage during a cycle: by queue, by owner, by the whole cluster."""
