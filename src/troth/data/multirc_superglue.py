"""MultiRC as in SuperGLUE: is an answer true (Khashabi et al. 2018)? No rationales; its test labels are hidden."""

from dataclasses import dataclass, replace

from troth.data.sources.published import Published, rows
from troth.data.sources.readers import Table


@dataclass(frozen=True)
class MultircSuperglue(Published):
    hub = "aps/super_glue:multirc"
    text_column = "paragraph"
    auxiliary = "query"
    labels = ("False", "True")
    splits = rows(train=27_243, validation=4_848)
    metric = "macro_f1"

    def adapt(self, table: Table) -> Table:
        if "answer" not in table.columns:
            return table
        joined = [{**row, "query": f"{row['question']} || {row['answer']}"} for row in table.rows]
        return replace(table, rows=joined, columns=(*table.columns, "query"))
