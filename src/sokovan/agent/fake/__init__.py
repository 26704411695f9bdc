"""Fake agents: the real agent's state machine over a simulated runtime."""
