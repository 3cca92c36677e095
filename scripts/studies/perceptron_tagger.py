"""A part-of-speech tagger for Figure 1 of the SaLoss study, for experiments only: it is not part of troth.

NLTK's averaged perceptron with the weights of textblob-aptagger 0.2.0. They are a pickle, so only the file with the
checksum below is read.

    pip install nltk; pip download --no-deps textblob-aptagger==0.2.0; unzip textblob_aptagger-*.whl
    export TAGGER=.../trontagger-0.1.0.pickle
    PYTHONPATH=scripts/studies troth study 'saloss(tagger=perceptron_tagger:tags)' ...

Penn tags become the universal ones that the paper shows. A Penn tag cannot tell conjunctions from prepositions (IN is
ADP, but for a few words that are always SCONJ), and be, have and do are AUX wherever they stand.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

CHECKSUM = "1109164b3d28dce58f96b763128bab2fd8754c3921fd3330de2724ac6d1ada7c"
UNIVERSAL = {
    "CC": "CCONJ", "CD": "NUM", "DT": "DET", "EX": "PRON", "FW": "X", "IN": "ADP", "JJ": "ADJ", "JJR": "ADJ",
    "JJS": "ADJ", "LS": "X", "MD": "AUX", "NN": "NOUN", "NNS": "NOUN", "NNP": "PROPN", "NNPS": "PROPN", "PDT": "DET",
    "POS": "PART", "PRP": "PRON", "PRP$": "PRON", "RB": "ADV", "RBR": "ADV", "RBS": "ADV", "RP": "ADP", "SYM": "SYM",
    "TO": "PART", "UH": "INTJ", "VB": "VERB", "VBD": "VERB", "VBG": "VERB", "VBN": "VERB", "VBP": "VERB", "VBZ": "VERB",
    "WDT": "DET", "WP": "PRON", "WP$": "PRON", "WRB": "ADV", "$": "SYM", "#": "SYM",
}  # fmt: skip
AUXILIARY = {
    "be", "am", "is", "are", "was", "were", "been", "being", "'s", "'re", "'m", "have", "has", "had", "having", "'ve",
    "do", "does", "did", "doing",
}  # fmt: skip
SUBORDINATING = {"because", "although", "though", "if", "unless", "whether", "while", "than", "that"}


def tags(words: Sequence[str]) -> list[str]:
    """A universal tag per word."""
    return [_universal(word, tag) for word, tag in _tagger().tag(list(words))]


def _universal(word: str, tag: str) -> str:
    if not any(letter.isalnum() for letter in word) and tag not in ("$", "#"):
        return "PUNCT"
    if word.lower() in AUXILIARY and tag.startswith("VB"):
        return "AUX"
    if word.lower() in ("not", "n't"):
        return "PART"
    if word.lower() in SUBORDINATING and tag == "IN":
        return "SCONJ"
    return UNIVERSAL.get(tag, "X")


@cache
def _tagger() -> Any:
    from nltk.tag.perceptron import PerceptronTagger

    data = Path(os.environ["TAGGER"]).read_bytes()
    if hashlib.sha256(data).hexdigest() != CHECKSUM:
        raise ValueError(f"{os.environ['TAGGER']} is not the trontagger-0.1.0.pickle of textblob-aptagger 0.2.0")
    tagger = PerceptronTagger(load=False)
    tagger.model.weights, tagger.tagdict, tagger.classes = pickle.loads(data)
    tagger.model.classes = tagger.classes
    return tagger
