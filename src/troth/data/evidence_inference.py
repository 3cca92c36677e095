"""Evidence Inference: what did a treatment do, by the article on its trial, with the evidence (Lehman et al. 2019)?"""

from dataclasses import dataclass

from troth.data._base import rows
from troth.data._published import Published


@dataclass(frozen=True)
class EvidenceInference(Published):
    auxiliary = "query"
    labels = ("significantly decreased", "no significant difference", "significantly increased")
    splits = rows(train=None, validation=None, test=None)
    metric = "macro_f1"
    obtain = "get it at https://www.eraserbenchmark.com and unpack it as $TROTH_DATA/evidence_inference"
