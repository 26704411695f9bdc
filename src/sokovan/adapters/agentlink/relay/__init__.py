"""Requests to agents through the process of a server that has their links."""
