"""Agents, images, queues, scaling groups and topology."""
