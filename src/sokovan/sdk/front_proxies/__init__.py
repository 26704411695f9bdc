"""Configurations of proxies that stand before the gateways, such as HAProxy."""
