"""SST: is a sentence of a film review positive (Socher et al. 2013)? The binary, sentence-level form.

`as_in`: the ROAR paper takes sentences of more than five tokens, without any signs (`do n't` is `do n t`), as Jain &
Wallace (2019) prepared them.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

from troth.data._base import Data, rows
from troth.data.sources.published import PaperSplits

_SHORTEST = 6  # tokens, including punctuation
_SIGNS = re.compile(r"-[lr]rb-|\W+", re.IGNORECASE)  # the treebank writes brackets as -LRB- and -RRB-


@dataclass(frozen=True)
class Sst(PaperSplits):
    hub = "SetFit/sst2"
    labels = ("negative", "positive")
    splits = rows(train=6_920, validation=872, test=1_821)
    metric = "macro_f1"
    paper_rows = rows(train=6_579, validation=848, test=1_776)

    as_in: Literal["roar"] | None = None

    def paper_split(self, split: str) -> Data:
        data = super().paper_split(split)
        long = [example for example in data if len(example.text.split()) >= _SHORTEST]
        return replace(data, examples=[replace(one, text=_SIGNS.sub(" ", one.text).strip()) for one in long])
