"""Sans-I/O core of the client: builds requests and decodes responses."""
