"""The life of deployments: definitions, replicas, rollouts."""
