"""The earliest start of a waiting session, by trials at later times."""
