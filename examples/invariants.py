"""What a workload raises when the server has broken a promise. Nothing but that lives here."""


class Violation(Exception):
    """An invariant does not hold. `invariant` is its name in the workload's list; the message says why."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


def leading(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Of what the tasks of a TaskGroup raised: the first violation, or else the first error."""
    leaves = [
        leading(error) if isinstance(error, BaseExceptionGroup) else error for error in errors.exceptions
    ]
    return next((leaf for leaf in leaves if isinstance(leaf, Violation)), leaves[0])
