"""The life of a connection: the states, and what leads from one to the next. Pure.

`Order.life` has the state; all that changes it calls `Order.live_through`. Two facts are the server's, and
hold for all its connections: `Connections.are_frozen` and `Connections.are_draining`.
"""

from enum import Enum


class Life(Enum):
    """The state of a connection, which says what happens to bytes from the client."""

    OPENING = "opening"  # the first packet is the connect request, or the bytes are a four-letter word
    ANSWERING = "answering"  # a word has come: the rest is ignored
    WAITING = "waiting"  # they are kept until the client has its session
    SERVING = "serving"  # they are requests
    CLOSED = "closed"  # they are ignored, and nothing is sent after the last packet


class LifeEvent(Enum):
    """What changes the state."""

    WORD = "a four-letter word has come"
    REQUEST = "the connect request has come"
    SESSION = "the client has its session, maybe since another process served it"
    END = "no packet follows those that are ready"


TRANSITIONS = {
    Life.OPENING: {
        LifeEvent.WORD: Life.ANSWERING,
        LifeEvent.REQUEST: Life.WAITING,
        LifeEvent.SESSION: Life.SERVING,
        LifeEvent.END: Life.CLOSED,
    },
    Life.ANSWERING: {LifeEvent.END: Life.CLOSED},
    Life.WAITING: {LifeEvent.SESSION: Life.SERVING, LifeEvent.END: Life.CLOSED},
    Life.SERVING: {LifeEvent.END: Life.CLOSED},
    Life.CLOSED: {LifeEvent.END: Life.CLOSED},
}
"""The state after each event. What is not here cannot happen."""
