"""Commands for domains, groups, users, queues, quotas, scaling groups and images."""
