"""Messages between the manager and its proxies."""
