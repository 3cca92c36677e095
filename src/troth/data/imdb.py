"""IMDB: is a film review positive (Maas et al. 2011)?"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Imdb(Published):
    hub = "stanfordnlp/imdb"
    labels = ("negative", "positive")
    splits = rows(train=25_000, test=25_000)
    metric = "macro_f1"
    sorted_by_label = True
