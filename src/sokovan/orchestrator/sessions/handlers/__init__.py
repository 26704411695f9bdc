"""The work of the session coordinator, one kind of it in each module."""
