"""The processes of one `sokovan server`: the manager, and several of its API."""
