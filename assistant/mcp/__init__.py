"""Client of the assistant for MCP servers (Model Context Protocol): offers their tools as the assistant's own."""
