"""The async client, from which `sdk.sync` is generated."""
