"""What the inside asks of the outside: small Protocols with promises."""
