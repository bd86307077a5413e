"""Client of servers of the Model Context Protocol (MCP): their tools as tools of the assistant."""
