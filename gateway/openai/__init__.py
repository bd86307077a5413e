"""OpenAI's API as pydantic models: field names, types and limits of the gateway's requests and responses."""
