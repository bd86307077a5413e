"""Tools in and calls out: how models are told of tools, and how their calls are found in what they write.

Nothing that a model writes is ever evaluated: calls are found by automata that read JSON character by character.
"""
