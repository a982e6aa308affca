"""What every kind of endpoint shares, without a driver: the core, its queues, messages, payloads, receipts."""
