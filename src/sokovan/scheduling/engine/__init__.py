"""The allocation engine: workspace, statements, queues, gangs, topology."""
