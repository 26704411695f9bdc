"""The proxy's side of the manager: route table, reports, health of endpoints."""
