"""Signs people in at an OpenID Connect provider: authorization-code flow with PKCE, and roles from its groups."""
