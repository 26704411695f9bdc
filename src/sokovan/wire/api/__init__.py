"""JSON types of the API, version 1."""
