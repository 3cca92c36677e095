"""IMDB: is a film review positive (Maas et al. 2011)?

`as_in`: the ROAR paper takes reviews of 7 to 399 words, in lower case and without signs, as Jain & Wallace (2019) had
them; it validates on a fifth of train and tests on a fifth of test. Which fifths is not known: these are ours.
"""

from dataclasses import dataclass, replace
from typing import Literal

from troth.data._base import Data, hold_out, rows
from troth.data.sources.published import PaperSplits

_WORDS = range(7, 400)
_HELD_OUT = 0.2
_SIGNS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))  # all but the apostrophe


@dataclass(frozen=True)
class Imdb(PaperSplits):
    hub = "stanfordnlp/imdb"
    labels = ("negative", "positive")
    splits = rows(train=25_000, test=25_000)
    metric = "macro_f1"
    sorted_by_label = True
    paper_rows = rows(train=17_212, validation=4_304, test=4_362)

    as_in: Literal["roar"] | None = None

    def paper_split(self, split: str) -> Data:
        whole = super(PaperSplits, self).read("test" if split == "test" else "train")
        words = [(example, example.text.lower().translate(_SIGNS).split()) for example in whole]
        chosen = [replace(example, text=" ".join(text)) for example, text in words if len(text) in _WORDS]
        larger, smaller = hold_out(replace(whole, examples=chosen), _HELD_OUT)
        return larger if split == "train" else smaller
