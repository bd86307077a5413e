"""Tool calling: describes tools to the model and finds its calls in the generated text.

Generated text is never evaluated: automata find the calls, reading JSON character by character.
"""
