"""Routes for many sessions in one request: lists, and bodies with one per line."""
