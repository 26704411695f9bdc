"""Selectors choose the agent for a kernel among those that fit."""
