"""SemEval-2017 task 4A: is a tweet negative, neutral or positive (Rosenthal et al. 2017)?

The tweets to train on could be had in part only, and differ from source to source; the test set is the official one.
`as_in=saloss`: the train, dev and test files of 2016, told apart by a column `source` (2016train-A and so on).
"""

from dataclasses import dataclass
from typing import Literal

from troth.data._base import Data, rows
from troth.data.sources.published import PaperSplits

_FILES = {"train": "2016train-A", "validation": "2016dev-A", "test": "2016test-A"}


@dataclass(frozen=True)
class Semeval20174a(PaperSplits):
    hub = "cardiffnlp/tweet_eval:sentiment"
    labels = ("negative", "neutral", "positive")
    splits = rows(train=None, validation=None, test=12_284)
    metric = "macro_f1"
    paper_rows = rows(train=6_000, validation=2_000, test=20_630)

    as_in: Literal["saloss"] | None = None

    def paper_split(self, split: str) -> Data:
        return self.read_where("train", "source", _FILES[split])
