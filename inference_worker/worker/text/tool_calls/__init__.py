"""Tool calling in a worker: describes tools to the model, and finds the model's calls in the generated text.

Generated text is never evaluated: automata find the calls, reading JSON character by character.
"""
