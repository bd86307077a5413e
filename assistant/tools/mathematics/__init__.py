"""Symbolic mathematics: evaluates, simplifies, solves, differentiates, integrates and plots with SymPy in a sandbox.

`parser` reads expressions by its own grammar, `bounds` refuses what would be too large before anything is computed,
`computation` runs in the sandboxed process that `process` starts, and `tool` is the tool.
"""
