"""Optional dependencies: where one is missing, the error line names the extra that installs it."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from troth.core.errors import TrothError


@contextmanager
def importing(extra: str, what: str) -> Iterator[None]:
    """Around the imports of an extra: `what` needs them."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing(extra, what, error.name or extra) from None


def require(extra: str, what: str, module: str) -> None:
    """The same before long work, without importing the module."""
    if importlib.util.find_spec(module) is None:
        raise _missing(extra, what, module)


def _missing(extra: str, what: str, module: str) -> TrothError:
    return TrothError(f"{what} needs {module}, which is not installed: pip install 'troth[{extra}]'")
