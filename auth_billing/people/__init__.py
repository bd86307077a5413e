"""Organisations, projects, members and roles; invitations, passwords and browser sessions."""
