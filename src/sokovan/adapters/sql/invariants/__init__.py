"""The laws of the store as queries that name whoever breaks one."""
