"""Sequencers order the waiting sessions."""
