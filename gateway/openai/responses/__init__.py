"""Models of the Responses API: requests and their input items, tools, responses and the translation to a chat."""
