"""Changes: requests of sessions of their own (`local_session`), with the user's identities (`editing`)."""
