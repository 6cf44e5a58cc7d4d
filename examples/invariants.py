"""What a workload raises when the server has broken a promise. Nothing but that lives here."""


class Violation(Exception):
    """An invariant does not hold. `invariant` is its name in the workload's list; the message says why."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


def first_violation(errors: BaseExceptionGroup[BaseException]) -> Violation | None:
    """The first violation among what the tasks of a TaskGroup raised, None if there is none."""
    for error in errors.exceptions:
        if isinstance(error, Violation):
            return error
        if isinstance(error, BaseExceptionGroup) and (inner := first_violation(error)) is not None:
            return inner
    return None
