"""Sign-in at an OpenID Connect provider: authorization-code flow with PKCE, and roles from the provider's groups."""
