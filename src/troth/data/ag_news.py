"""AG News: what is a news item about (Del Corso et al. 2005; Zhang et al. 2015)?

`as_in`: the soft-metrics and SaLoss papers hold out 0.15 of train to validate on.
"""

from dataclasses import dataclass
from typing import Literal

from troth.data.sources.published import PaperSplits, rows


@dataclass(frozen=True)
class AgNews(PaperSplits):
    hub = "fancyzhx/ag_news"
    labels = ("World", "Sports", "Business", "Sci/Tech")
    splits = rows(train=120_000, test=7_600)
    metric = "macro_f1"
    license = "non-commercial use"
    paper_rows = rows(train=102_000, validation=18_000, test=7_600)
    paper_held_out = 0.15

    as_in: Literal["soft", "saloss"] | None = None
