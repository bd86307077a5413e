"""Executes the engine's planned steps: builds input tensors, runs the model, samples, and isolates faulty requests."""
