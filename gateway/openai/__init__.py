"""OpenAI's API as pydantic models: field names, types and limits of requests and responses."""
