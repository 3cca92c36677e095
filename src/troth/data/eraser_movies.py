"""ERASER movies: is a film review positive, with the passages that say so (Zaidan et al. 2007; DeYoung et al. 2020)?"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class EraserMovies(Published):
    labels = ("NEG", "POS")
    splits = rows(train=1_600, validation=200, test=199)
    metric = "macro_f1"
    sorted_by_label = True
    obtain = "get it at https://www.eraserbenchmark.com and unpack it as $TROTH_DATA/eraser_movies"
