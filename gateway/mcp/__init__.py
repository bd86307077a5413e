"""Server of the Model Context Protocol (MCP): the tools of the installation's assistants as tools of MCP clients."""
