"""Server of the Model Context Protocol (MCP) in the gateway: offers the assistants' tools to MCP clients."""
