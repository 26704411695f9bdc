"""The life of sessions: requests, decisions, work in each state."""
