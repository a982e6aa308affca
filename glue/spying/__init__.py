"""The state behind `glue spy`, `glue top` and `glue peers`: topics, rates, roles, a tree, plots.

Nothing here reads a clock or a socket; `now` is an argument. The commands in `glue/cmd/` are thin shells around it.
"""
