"""The driver-independent part of endpoints: the core, queues, messages, payloads and receipts."""
