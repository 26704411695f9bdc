"""Services of the local machine: clock, ids, random source and files."""
