"""The threaded driver of a stack; `glue.aio` has the asyncio driver, `glue.simulation` the simulated one."""
