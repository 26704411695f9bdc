"""What a shell asks of us at every Tab."""
