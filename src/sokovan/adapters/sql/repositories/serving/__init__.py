"""Deployments, replicas, rollouts, routes, tokens and proxies on SQL."""
