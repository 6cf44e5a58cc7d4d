"""What makes a run invalid. Nothing but exceptions lives here."""


class BenchError(Exception):
    """The run gives no number; the message says why."""


class BadReply(BenchError):
    """A reply was an error, was out of order, or had another length than success has."""


class EffectsDiffer(BenchError):
    """The tree doesn't hold what the counted replies promised."""


class Stalled(BenchError):
    """A server stopped answering in the middle of a run."""
