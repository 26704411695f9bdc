"""Connections of clients and endpoints, and the requests that pass between them."""
