"""Tools of the assistant: their port (`tool`), the runner with limits and cache (`toolbox`), and the tools themselves.

A tool has one module or folder. Results are JSON objects with a `type`; they are data, never instructions.
"""
