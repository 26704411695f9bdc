"""Commands on deployments, their tokens and ports, and a client of models."""
