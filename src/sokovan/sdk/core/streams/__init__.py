"""Streams of a server as data: events, followed sessions and logs, log lines."""
