"""MultiRC as in ERASER: is an answer true, with its evidence (Khashabi et al. 2018; DeYoung et al. 2020)?"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Multirc(Published):
    auxiliary = "query"
    labels = ("False", "True")
    splits = rows(train=24_029, validation=3_214, test=4_848)
    metric = "macro_f1"
    obtain = "get it at https://www.eraserbenchmark.com and unpack it as $TROTH_DATA/multirc"
