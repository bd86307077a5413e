"""Shapes of `/v1/organization`, as OpenAI's specification has them: what its clients send and read."""
