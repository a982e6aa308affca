"""Short cuts through all layers; the ordinary way (`glue.stack`) works without them, with the same result."""
