"""The nouns of the system and the laws they keep. Standard library only."""
