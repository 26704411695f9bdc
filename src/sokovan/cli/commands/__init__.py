"""Commands that speak to a server, through the SDK and nothing else."""
