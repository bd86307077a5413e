"""Sets up a checkout by steps: Python packages, store, models, kernels, web chat. Uses the standard library only."""
