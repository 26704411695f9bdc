"""What travels between the API and its clients, as JSON, version 1."""
