"""Arrow without pandas: the first array that is made of a Python list imports pandas if it is installed.

That import takes longer than reading a small tree, and none of our arrays is made of a pandas object.
"""

import sys


class _WithoutPandas:
    """A finder of modules that does not find pandas. (The base class in importlib.abc is slow to import.)"""

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> None:
        """Raises ModuleNotFoundError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)


def leave_pandas_out() -> None:
    """Let pyarrow look for pandas now, and not find it.

    It still imports pandas for a DataFrame. This has no effect if pyarrow has looked for pandas already.
    Raises ModuleNotFoundError if pyarrow is not installed.
    """
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.array([0])
    finally:
        sys.meta_path.remove(finder)
