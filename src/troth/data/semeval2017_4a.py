"""SemEval-2017 task 4A: is a tweet negative, neutral or positive (Rosenthal et al. 2017)?

The tweets to train on could be had in part only, and differ from source to source; the test set is the official one.
"""

from dataclasses import dataclass

from troth.data._base import rows
from troth.data._published import Published


@dataclass(frozen=True)
class Semeval20174a(Published):
    hub = "cardiffnlp/tweet_eval:sentiment"
    labels = ("negative", "neutral", "positive")
    splits = rows(train=None, validation=None, test=12_284)
    metric = "macro_f1"
