"""The commands, one module each: `python -m glue.cmd.topics`, or `glue topics` once glue is installed.

Most layers have a command that shows the layer at work. `endpoint` subscribes and publishes from a shell, and `demo`
runs four endpoints. Shared code is in `common` (how a command starts and ends), `output` (what it prints) and `traffic`
(numbered messages).
"""
