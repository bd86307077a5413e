"""User accounts: sign-up, sign-in and browser sessions; organisations, projects, members with roles, invitations."""
