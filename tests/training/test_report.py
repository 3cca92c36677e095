"""train.json: what was held out and what was tested on keep apart, whatever the splits are called."""

import json

from tests.training.test_train import OPTIONS, TINY

from troth.training.train import train


def test_a_tested_split_called_validation_does_not_take_the_held_out_part_s_place(films, tmp_path):
    for split, start, count in (("train", 0, 40), ("validation", 100, 12)):
        rows = [vars(example) for example in films(count, start=start)]
        lines = [json.dumps({name: row[name] for name in ("id", "text", "label")}) for row in rows]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    trained = train("plain", tmp_path, TINY, tmp_path / "out", hold_out=0.25, tests=["validation"], **OPTIONS)
    plain = train("plain", tmp_path, TINY, tmp_path / "plain", hold_out=0.25, **OPTIONS)
    counts = trained.report["data"]
    assert (counts["training"], counts["validation"], counts["validation (test)"]) == (30, 10, 12)
    assert trained.scores["validation"] == plain.scores["validation"]
    assert list(trained.scores) == list(trained.report["majority"]) == ["validation", "validation (test)"]
