"""The endpoint for blocking programs: `glue.Endpoint`, its subscriptions and models. `glue.aio` mirrors it."""
