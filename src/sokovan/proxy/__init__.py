"""The proxy: forwards requests to the endpoints of deployments."""
