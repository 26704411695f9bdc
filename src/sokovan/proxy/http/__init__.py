"""HTTP/1.1 without I/O: heads are parsed strictly and written anew."""
