"""People: organisations, projects and roles, invitations, passwords, and sessions of browsers."""
