"""What a workload raises when the server has broken a promise. Nothing but that lives here."""


class Violation(Exception):
    """An invariant does not hold. `invariant` is its name in the workload's list; the message says why."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
