"""Routes of deployments, their rollouts and tokens."""
