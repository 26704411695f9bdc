"""Commands that call the server, through the SDK only."""
