"""Documents that a project keeps for a time: stored chat completions, responses, conversations and their items."""
