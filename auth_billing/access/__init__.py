"""Access control: roles of members, scopes of callers, and the principal that a request is made by."""
