"""Owners of work: tenancy, access rules and resource policies."""
