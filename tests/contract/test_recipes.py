"""Every recipe trains every kind of base on a tiny thing: weights move, and training again gives the same ones."""

import json

import pytest
import torch
from safetensors.torch import load_file

import fakes
import troth
from troth.core import catalog


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A folder with a model to start from, and a file of examples."""
    folder = tmp_path_factory.mktemp("start")
    fakes.hf_model(classes=2).save_pretrained(folder / "model")
    fakes.tokenizer_for("bert").save_pretrained(folder / "model")
    rows = [{"text": text, "label": number % 2} for number, text in enumerate(fakes.CORPUS * 2)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("base", ["model", "bilstm_attention(embedding=8, hidden=8)"])
@pytest.mark.parametrize("name", catalog.names("recipes"))
def test_recipe(name, base, start, tmp_path):
    def train(folder, epochs):
        source = str(start / base) if base == "model" else base
        trained = troth.train(
            name, str(start / "data.jsonl"), source, tmp_path / folder, epochs=epochs, batch_size=8, cpu=True,
            hold_out=0.3, progress=False,
        )  # fmt: skip
        losses = [epoch["loss"] for epoch in trained.report["history"]]
        return load_file(tmp_path / folder / "model.safetensors"), losses

    weights, losses = train("first", 2)
    again, same = train("second", 2)
    assert all(torch.equal(weights[key], again[key]) for key in weights)
    assert losses == same
    assert all(loss == loss for loss in losses)
    assert losses[0] != losses[1]  # something was learned between the two epochs
