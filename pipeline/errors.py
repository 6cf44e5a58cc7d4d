"""What a command cannot do, in words for its user."""


class Failure(Exception):
    """The command cannot do what it was asked; the message says in one line what failed and what to do."""


class MissingPackage(Failure):
    """A package is not installed; the message says how to install it."""
