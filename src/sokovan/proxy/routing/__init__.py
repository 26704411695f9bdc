"""Decisions of the proxy, without I/O: which endpoint gets a request, and when."""
