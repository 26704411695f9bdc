"""The allocation engine: columns of agents, statements, queues, gangs, domains."""
