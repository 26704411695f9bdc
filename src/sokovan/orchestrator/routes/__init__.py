"""Routes of deployments: the table of proxies, their health and their drains."""
