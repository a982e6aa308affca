"""What feeds turns to a stack: a background thread here, asyncio in `glue.aio`, `glue.simulation` in virtual time."""
