"""HTTP routes of the chat API, which the page of signed-in users calls; one module per subject."""
