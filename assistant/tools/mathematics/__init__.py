"""Mathematics tool of the assistant: evaluates, solves, differentiates, integrates, plots with SymPy in a sandbox.

Expressions are read by `runtime.mathematics`; `computation` runs in the sandboxed process that `process` starts, and
`tool` is the tool.
"""
