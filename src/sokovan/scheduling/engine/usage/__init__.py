"""What is used in a scheduling cycle: by queues, by owners, by the whole cluster."""
