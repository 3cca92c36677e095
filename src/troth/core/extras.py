"""Optional dependencies: if one is missing, the error names the extra that installs it."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from troth.core.errors import TrothError


@contextmanager
def importing(extra: str, what: str) -> Iterator[None]:
    """Wraps the imports of an extra, which `what` needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing(extra, what, error.name or extra) from None


def require(extra: str, what: str, module: str) -> None:
    """Checks for an extra before long computations, without importing it."""
    if importlib.util.find_spec(module) is None:
        raise _missing(extra, what, module)


def _missing(extra: str, what: str, module: str) -> TrothError:
    return TrothError(f"{what} needs {module}, which is not installed: pip install 'troth[{extra}]'")
