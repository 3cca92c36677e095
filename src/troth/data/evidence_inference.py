"""Evidence Inference: the effect of a treatment, by the article on its trial, with the evidence (Lehman et al. 2019).

`as_in`: the soft-metrics and SaLoss papers read abstracts only. Here that is an article up to its body, and of the
questions those whose evidence lies in it: how the papers came to 5,789 / 684 / 720 questions they do not say.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from troth.core.errors import TrothError
from troth.data.sources.published import PaperSplits, rows
from troth.data.sources.readers import Table

_BODY = re.compile(r"\s*\bBODY\.")  # sections are marked: TITLE, ABSTRACT.METHODS, BODY.INTRODUCTION


@dataclass(frozen=True)
class EvidenceInference(PaperSplits):
    auxiliary = "query"
    labels = ("significantly decreased", "no significant difference", "significantly increased")
    splits = rows(train=None, validation=None, test=None)
    metric = "macro_f1"
    obtain = "get it at https://www.eraserbenchmark.com and unpack it as $TROTH_DATA/evidence_inference"
    paper_rows = rows(train=5_789, validation=684, test=720)

    as_in: Literal["soft", "saloss"] | None = None

    def adapt(self, table: Table) -> Table:
        if self.as_in is None:
            return table
        found = [_abstract(row) for row in table.rows]
        kept = [row for row in found if row["rationale"]]
        if not kept:
            raise TrothError(
                f"{self.name}: no question of {table.source} has its evidence in an abstract; use the files as ERASER "
                "has them, with docs and evidences"
            )
        return replace(table, rows=kept)


def _abstract(row: Any) -> dict[str, Any]:
    body = _BODY.search(row["text"])
    end = len(row["text"]) if body is None else body.start()
    inside = [span for span in row.get("rationale") or () if span[1] <= end]
    return {**row, "text": row["text"][:end], "rationale": inside}
