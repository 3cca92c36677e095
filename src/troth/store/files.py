"""Files that are either whole or not there: `core.files`, under the name it had."""

from troth.core.files import CannotWriteError as CannotWriteError
from troth.core.files import cannot_write as cannot_write
from troth.core.files import is_full as is_full
from troth.core.files import remove_abandoned as remove_abandoned
from troth.core.files import write_aside as write_aside
