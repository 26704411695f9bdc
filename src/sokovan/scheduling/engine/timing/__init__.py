"""Time in a cycle: when sessions end, and room that is held from a time on."""
