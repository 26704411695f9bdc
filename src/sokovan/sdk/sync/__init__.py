"""The sync client, generated from `sdk.aio` by `make docs`."""
