"""What one machine offers by itself: its clock, new ids, and files."""
