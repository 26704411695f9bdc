"""Conversions between wire types and domain types, without side effects."""
