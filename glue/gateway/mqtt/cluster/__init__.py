"""Doors as a cluster: sessions live in a model that a majority keeps, and any door goes on with them."""
