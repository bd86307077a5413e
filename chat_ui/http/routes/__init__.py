"""Routes of the chat API, which browsers of signed-in users call; one module per subject."""
