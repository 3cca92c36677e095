"""AG News: what is a news item about (Del Corso et al. 2005; Zhang et al. 2015)?"""

from dataclasses import dataclass

from troth.data._base import rows
from troth.data._published import Published


@dataclass(frozen=True)
class AgNews(Published):
    hub = "fancyzhx/ag_news"
    labels = ("World", "Sports", "Business", "Sci/Tech")
    splits = rows(train=120_000, test=7_600)
    metric = "macro_f1"
    licence = "non-commercial use"
