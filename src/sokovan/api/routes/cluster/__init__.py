"""Routes of agents, scaling groups, queues, images and the topology."""
