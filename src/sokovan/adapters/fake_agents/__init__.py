"""Agents that only act as if: for trying gangs and topology without the machines."""
