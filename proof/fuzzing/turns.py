"""How long each target is fuzzed, so that every one gets its share of the time. Pure.

A turn takes longer than it was given: the inputs of former runs are tried first, and atheris has to start.
So what is left is divided anew before each turn, and what former turns took beyond their time is kept back.
"""

# Seconds of a turn in runs without an end: in the first round, twice as many in each next one, and at most.
_FIRST = 5.0
_LONGEST = 60.0


class Turns:
    """The turns of so many targets, one after another: once in so many seconds, or for ever."""

    def __init__(self, targets: int, seconds: float | None, now: float) -> None:
        """`seconds`: of all turns together; None: there is no end. `now`: any clock's seconds."""
        #: The target whose turn is next.
        self.place = 0
        #: How many rounds are over.
        self.round = 0
        self._targets = targets
        self._end = None if seconds is None else now + seconds
        self._given = self._beyond = 0.0

    @property
    def is_round_over(self) -> bool:
        """Whether every target has had as many turns as every other."""
        return self.place == 0 and self.round > 0

    @property
    def are_over(self) -> bool:
        """Whether there is no further turn."""
        return self.is_round_over and self._end is not None

    def next(self, now: float) -> float:
        """Seconds of the next turn."""
        if self._end is None:
            self._given = min(_LONGEST, _FIRST * 2**self.round)
        else:
            self._given = max(0.0, (self._end - now) / (self._targets - self.place) - self._beyond)
        return self._given

    def took(self, seconds: float) -> None:
        """The turn is over, after so many seconds."""
        # The mean of the last and those before it: targets differ, and so does the load of the machine.
        self._beyond = (self._beyond + max(0.0, seconds - self._given)) / 2
        self.place += 1
        if self.place == self._targets:
            self.place = 0
            self.round += 1
