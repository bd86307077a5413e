"""Reads mathematical expressions from untrusted text: a parser with its own grammar, bounds, and SymPy expressions.

`parser` reads expressions, `bounds` refuses what would be too large before anything is computed, and
`sympy_expressions`, which imports SymPy, belongs in sandboxed processes only.
"""
