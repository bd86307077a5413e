"""Sets up a checkout by steps: Python packages, store, models, kernels, web chat.

Must use the standard library only.
"""
