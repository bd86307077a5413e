"""Prices of models per token and unit, as exact integers: loads them from files, keeps versions, computes costs."""
