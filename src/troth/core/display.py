"""How results display themselves: a short `repr` without tensors, and HTML for notebooks with light or dark
backgrounds.
"""

import html as markup
from collections.abc import Iterable, Iterator, Sequence

from troth.core.terminal import visible

MOST = 20  # items of a list that are shown, because a saved notebook stores its output
_WIDEST = 80  # characters of a text on one line

# Colors are inherited from the notebook's theme; its row stripes and alignment are overridden.
_STYLE = """
.troth-shown { color: inherit; line-height: 1.5; overflow-x: auto; }
.troth-shown table { border-collapse: collapse; margin: .5em 0; font-variant-numeric: tabular-nums; }
.troth-shown table, .troth-shown th, .troth-shown td, .troth-shown caption { color: inherit; background: none; }
.troth-shown caption { text-align: left; font-weight: 600; padding: .3em 0; }
.troth-shown th, .troth-shown td { padding: .2em .7em; text-align: right; vertical-align: top; }
.troth-shown tr { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
.troth-shown th:first-child, .troth-shown td:first-child, .troth-shown .text { text-align: left; }
.troth-shown small, .troth-shown .muted { opacity: .75; }
"""


class Shown:
    """A mixin that provides a one-line `repr`, followed by one line per item, and HTML for notebooks."""

    def _line(self) -> str:
        """The most important facts in one line, without the name of the class."""
        raise NotImplementedError

    def _rows(self) -> Iterable[str]:
        """One line per item, for objects that contain items."""
        return ()

    def _parts(self) -> Iterable[str]:
        """Escaped HTML, one part below the other."""
        yield f"<p>{markup.escape(repr(self))}</p>"

    def __repr__(self) -> str:
        rows = (f"  {visible(row)}" for row in self._rows())
        return "\n".join([f"<{type(self).__name__} {visible(self._line())}>", *rows])

    def _repr_html_(self) -> str:
        return fragment(self._parts())


def fragment(parts: Iterable[str]) -> str:
    """Joins parts of HTML into one fragment that stands alone in a notebook."""
    return f'<div class="troth-shown"><style>{_STYLE}</style>{"".join(parts)}</div>'


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table of plain values, escaped; text is aligned to the left."""

    def cell(value: object, tag: str = "td") -> str:
        side = "" if isinstance(value, int | float) else ' class="text"'
        return f"<{tag}{side}>{markup.escape(str(value))}</{tag}>"

    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    heads = f"<tr>{''.join(cell(name, 'th') for name in head)}</tr>" if head else ""
    return f"<table><caption>{markup.escape(caption)}</caption>{heads}{body}</table>"


def some(items: Sequence[str], most: int = MOST) -> Iterator[str]:
    """The first items, then a line with the number of further items.

    >>> list(some(["a", "b", "c"], most=1))
    ['a', '… and 2 more']
    """
    yield from items[:most]
    if len(items) > most:
        yield f"… and {len(items) - most:,} more"


def more(number: int, most: int = MOST) -> str:
    """HTML with the number of items that are not shown; empty if all are."""
    return f'<p class="muted">… and {number - most:,} more</p>' if number > most else ""


def short(text: str, most: int = _WIDEST) -> str:
    """A text on one line, shortened to the given number of characters.

    >>> short("a  long\\nstory", 8)
    'a long …'
    """
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def counted(number: int, thing: str) -> str:
    """
    >>> counted(1, "text"), counted(2000, "text")
    ('1 text', '2,000 texts')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
