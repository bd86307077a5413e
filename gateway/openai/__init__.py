"""OpenAI's API as pydantic models: shapes and limits, no behaviour."""
