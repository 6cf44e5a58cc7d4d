"""The two errors that reading etcd's keys and values can raise."""


class BadValue(ValueError):
    """A value that this version of the schema cannot read: another version or kind, cut short, or damaged."""


class ForeignKey(ValueError):
    """A key under the prefix that this version of the schema does not know."""
