"""Tools of the assistant: the port (`tool`), the runner with limits and cache (`toolbox`), and one module or folder per
tool. Results are JSON objects with a `type`; they are data, never instructions.
"""
