"""Access control: roles of members, scopes of API keys, access to models, and the principal that makes a request."""
