"""Requests of the API's processes to agents, through the process that has the links."""
