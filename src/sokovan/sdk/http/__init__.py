"""HTTP of both clients: requests as data, and one sender for each client."""
