"""bAbI task 3 as published (Weston et al. 2016): where was a thing before, by three facts of a long story."""

from dataclasses import dataclass

from troth.data.babi import OfficialBabi


@dataclass(frozen=True)
class Babi3(OfficialBabi):
    task = 3
