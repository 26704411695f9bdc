"""Selectors choose an agent for a kernel among those that fit."""
