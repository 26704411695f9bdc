"""SQL repositories, one per port; only they change statuses and amounts."""
