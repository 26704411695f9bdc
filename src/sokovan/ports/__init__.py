"""What the inside asks of the outside world: small Protocols with documented promises."""
