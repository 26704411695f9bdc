"""Addresses of databases, their errors, and clients that hang."""
