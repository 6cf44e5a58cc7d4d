"""Errors of commands, with messages for the user."""


class Failure(Exception):
    """The command cannot be done; the message says in one line what failed and what to do."""


class MissingPackage(Failure):
    """A package is not installed; the message says how to install it."""
