"""The chat's API, one file a subject. Nothing here is OpenAI's: a browser calls it for a person who is signed in."""
