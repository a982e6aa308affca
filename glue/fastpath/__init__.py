"""Short cuts through all layers for lone messages that go back and forth; the ordinary way works without them."""
