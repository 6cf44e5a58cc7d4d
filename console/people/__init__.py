"""Who may ask: operators, their passwords and logins, what headers allow, approvals by a second person."""
