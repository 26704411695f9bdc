"""Deployments, routes and endpoint health."""
