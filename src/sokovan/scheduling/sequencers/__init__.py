"""Sequencers say in which order sessions are considered."""
