"""Commands on deployments, their tokens, and a small client of models."""
