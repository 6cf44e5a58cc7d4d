"""Arrow without pandas: the first array that is made of a Python list imports pandas if it is installed.

That takes longer than a small tree takes to be looked at, and none of our arrays is made of a pandas object.
"""

import sys


class _WithoutPandas:
    """A finder of modules to which pandas is missing. (The base class in importlib.abc is slow to import.)"""

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> None:
        """Raises ModuleNotFoundError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)


def leave_pandas_out() -> None:
    """Let pyarrow look for pandas now, and not find it.

    It still imports pandas if it is asked for a DataFrame. Without effect if it has looked
    already. Raises ModuleNotFoundError where pyarrow is not installed.
    """
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.array([0])
    finally:
        sys.meta_path.remove(finder)
