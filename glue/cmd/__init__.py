"""The commands, one module each: `python -m glue.cmd.topics`, or `glue topics` once glue is installed.

There is one per layer, to see that layer at work, one to subscribe and publish from a shell (`endpoint`), and the
demo. What they have in common stands in `common` (how a command starts and ends), `output` (what it says) and
`traffic` (numbered messages there and back).
"""
