"""Wire types to domain types and back, without effects."""
