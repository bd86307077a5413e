"""Separates the reasoning of models that think before they answer from the answer."""
