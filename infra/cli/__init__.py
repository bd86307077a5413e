"""The `headrace` command: runs the platform's processes, and the operator's commands."""
