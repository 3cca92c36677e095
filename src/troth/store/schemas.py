"""The columns of stored rows: data, explanations, scores, checks."""

import pyarrow as pa

EXAMPLES = pa.schema(
    {
        "example_id": pa.string(),
        "text": pa.string(),
        "text_pair": pa.string(),
        "label": pa.string(),  # where the data names classes
        "label_index": pa.int32(),  # where it numbers them
        "rationale_starts": pa.list_(pa.int32()),
        "rationale_ends": pa.list_(pa.int32()),
        "group_name": pa.string(),  # only where the user has named groups; `group` is a word of SQL
    }
)
EXPLANATIONS = pa.schema(
    {
        "example_id": pa.string(),
        "starts": pa.list_(pa.int32()),  # of every unit, in characters
        "ends": pa.list_(pa.int32()),
        "segments": pa.list_(pa.int8()),  # 0 = in text, 1 = in text_pair
        "scores": pa.list_(pa.float32()),
        "target": pa.int32(),
        "against": pa.int32(),
        "signed": pa.bool_(),
        "rest": pa.float64(),
        "gap": pa.float64(),
        "truncated": pa.int32(),
        "probabilities": pa.list_(pa.float32()),
        "label": pa.int32(),  # the gold class, where the model has it
        "note": pa.string(),
    }
)
SCORES = pa.schema(
    {
        "example_id": pa.string(),
        "value": pa.float64(),  # null = undefined, and `why` says so
        "why": pa.string(),
        "record": pa.string(),  # JSON
    }
)
CHECKS = pa.schema(
    {
        "example_id": pa.string(),
        "ratio": pa.float64(),  # the share of units erased
        "p": pa.float64(),  # that what is left is in distribution
        "smallest": pa.float64(),  # the smallest p there could have been
        "why": pa.string(),  # in the only row of a check that could not be made
    }
)
