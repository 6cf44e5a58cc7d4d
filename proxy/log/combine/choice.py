"""Whether the entries of several proxies are appended together or by each proxy is tried all the time. Pure.

Which way is quicker depends on the hosts, the distances and the clients, and a proxy cannot find out alone: a
direct append is quick while the others combine. So the combiner chooses for all, by what the log of all gets
done. Time is cut into spans. Most go the usual way, now and then one goes the other way, and its rate is
compared with those of the spans before and after it. Where entries of several proxies hardly meet in a Txn,
together is only a longer way, and no rate is needed to know it.
"""

from collections import deque
from math import inf
from typing import NamedTuple

_SETTLING = 0.05  # seconds at a span's beginning that do not count: entries of the other way are in flight
_COUNTED = 0.2  # seconds that count of a span, at least: it lasts until there were `_FEWEST` requests
_FEWEST = 20
_LONGEST = 1.0  # seconds; a span that has had too few requests until then says nothing
_STEADY = 0.6  # a trial counts if the rates before and after it differ by this factor at most
_LEAST = 5  # trials that have to count before the usual way changes: three quarters of the last ones agree
_MOST = 9  # the last trials, so many of which are looked at
_RARELY = 32  # usual spans between two trials, at most
_LOOKS = 12  # the same while entries do not meet: a look for that costs little
_BEFORE_TRIAL = 6  # usual spans after a pause until a trial may begin: a short burst goes the usual way
_MEETING = 1 / 8  # of a span's entries have to share a Txn with another proxy's, or together brings nothing
_LONGER_WAY = 0.5  # times the rate of the other way: what such a span counts as
_TIE = 0.03  # separate appends have to be quicker by this, since together costs less CPU time


class Done(NamedTuple):
    """What has been done so far, whoever's it was."""

    requests: int
    """Those that were applied."""
    entries: int
    """In so many entries."""
    combined: int
    """Entries that were appended with those of other proxies."""


class _Mark(NamedTuple):
    """When so much was done."""

    done: Done
    at: float


class Choice:
    """What all proxies do now: `together`, or each by itself."""

    def __init__(self, fewest: int = _FEWEST, least: int = _LEAST, meeting: float = _MEETING) -> None:
        """`fewest`, `least`, `meeting`: less than usual where little happens, as in a simulation."""
        #: Whether entries are to be appended together now, be it for a trial.
        self.together = True
        #: Whether that is the usual way.
        self.usually_together = True
        self._fewest = fewest
        self._least = least
        self._meeting = meeting
        self._began = -inf  # this span
        self._counts_from: _Mark | None = None
        self._ratios: deque[float] = deque(maxlen=_MOST)
        self._gap = 1  # usual spans between two trials
        self._until_trial = 1  # of these, those that are left
        self._before = self._tried = 0.0  # requests a second; 0: unknown
        self._meets = True  # entries of several proxies did in the last span that was together

    def applied(self, done: Done, now: float) -> bool:
        """So much was done by now; returns whether `together` has changed.

        `now`: seconds of any clock. A span ends when it is called, so while nothing happens, nothing is done.
        """
        if self._counts_from is None:
            age = now - self._began
            if age >= _SETTLING:
                self._counts_from = _Mark(done, now)
            if age <= _LONGEST:
                return False
            self._paused()
            before, self.together = self.together, self.usually_together
            return self.together != before
        then = self._counts_from.done
        requests, entries, combined = (more - less for more, less in zip(done, then, strict=True))
        seconds = now - self._counts_from.at
        if seconds < _COUNTED or (requests < self._fewest and seconds < _LONGEST):
            return False
        self._counts_from, self._began = None, now
        was_together = self.together
        brings_nothing = was_together and combined < self._meeting * entries
        self.together = self._next(requests / seconds if seconds < _LONGEST else 0.0, brings_nothing)
        return self.together != was_together

    def _next(self, rate: float, brings_nothing: bool) -> bool:
        """A span had this rate; returns whether the next one is together."""
        usual = self.usually_together
        if self.together:
            if not self._meets and not brings_nothing:
                self._ratios.clear()  # they are of clients that were alone
            self._meets = not brings_nothing
        if brings_nothing and self._changes(1 / _LONGER_WAY if usual else _LONGER_WAY):
            return not usual
        if self.together != usual:
            self._tried = 0.0 if brings_nothing else rate
            return usual
        before, tried = self._before, self._tried
        self._before, self._tried = rate, 0.0
        is_steady = before and tried and rate and min(before, rate) > _STEADY * max(before, rate)
        if is_steady and self._changes(2 * tried / (before + rate)):
            return not usual
        if not rate:
            self._paused()
        self._until_trial -= 1
        if self._until_trial > 0:
            return usual
        self._until_trial = self._gap
        return not usual

    def _paused(self) -> None:
        """Little or nothing was done: nobody knows whether the clients are the same as before."""
        self._tried = 0.0
        self._until_trial = max(self._until_trial, _BEFORE_TRIAL + 1)

    def _changes(self, ratio: float) -> bool:
        """The other way had so many times the usual one's rate; returns whether the usual way changes."""
        needed = 1 + _TIE if self.usually_together else 1 - _TIE
        self._ratios.append(ratio)
        most = _RARELY if self._meets else _LOOKS
        self._gap = min(2 * self._gap, most) if ratio <= needed else max(self._gap // 4, 1)
        if len(self._ratios) < self._least or sorted(self._ratios)[len(self._ratios) // 4] <= needed:
            return False
        self.usually_together = not self.usually_together
        self._ratios = deque((1 / each for each in self._ratios), maxlen=_MOST)
        return True
