"""oneDNN multiplies the large matrices of the lane: the same products and gradients, however often a weight is used."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fakes
import troth
from troth.models import _changes, fused
from troth.models.encoder import Encoder
from troth.models.fused import parts as known_parts
from troth.models.fused import products
from troth.models.fused.products import Copies

TEXTS = ["a good film", "my new phone is fast , bright and a joy to use", "awful", "the soup was cold"]

needs_onednn = pytest.mark.skipif(not products.has_onednn(), reason="torch has no oneDNN for this processor")


def wrapped(family, **options):
    return Encoder(fakes.hf_model(family, **options), fakes.tokenizer_for(family), name=f"tiny {family}")


def plainly(model, *given):
    with model.at_rest(), _changes.swapped(model._fused, reads=lambda *_: None):
        return troth.explain(model, *given, progress=False)


def layer_and_values(rows=30):
    torch.manual_seed(0)
    return nn.Linear(24, 40).requires_grad_(False), torch.randn(rows, 24)


@needs_onednn
@pytest.mark.parametrize("pieces", [1, products._OFTEN])
def test_products_are_those_of_torch(pieces, monkeypatch):
    module, values = layer_and_values()
    calls = []
    monkeypatch.setattr(products, "multiplied", lambda *given: calls.append(given) or multiplied(*given))
    linear = products.Exact(pieces, large=len(values))
    for _ in range(pieces):
        torch.testing.assert_close(linear(values, module), module(values), atol=1e-6, rtol=1e-6)
    assert len(calls) == pieces
    assert (calls[0][1] is module.weight) == (pieces == 1)
    assert calls[0][1] is calls[-1][1]  # laid out once
    linear(values[1:], module)
    assert len(calls) == pieces  # too few for it


multiplied = products.multiplied


@needs_onednn
def test_gradients_of_products_and_gradients_of_those():
    module, values = layer_and_values()
    found = []
    for linear in (products.Exact(1, large=1), products.exact):
        given = values.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(linear(given, module).square().sum(), given)
        (again,) = torch.autograd.grad(linear(given, module).square().sum(), given, create_graph=True)
        (second,) = torch.autograd.grad(again.square().sum(), given)
        found.append((gradient, again.detach(), second))
    for own, other in zip(*found, strict=True):
        torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-5)


def test_other_number_formats_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(products, "multiplied", None)
    module, values = layer_and_values()
    linear = products.Exact(3, large=1)
    assert torch.equal(linear(values.double(), module.double()), module(values.double()))


@needs_onednn
@pytest.mark.parametrize("family", ["bert", "electra", "roberta"])
def test_logits_and_gradients_are_those_of_the_model(family, monkeypatch):
    monkeypatch.setattr(products, "_LARGE", 1)
    monkeypatch.setattr(fused, "_TOKENS", 10)  # so that a weight is used often enough to be laid out
    model = wrapped(family, num_hidden_layers=3)
    parts = known_parts.parts_of(model.model)
    rows = fused._trial_rows(parts)
    with model.at_rest():
        assert model._fused.logits(model.model, rows, lambda rows: model.plain_forward(rows).logits) is not None
        ours = fused._logits_and_gradient(lambda rows: model.forward(rows).logits, rows, parts)
        theirs = fused._logits_and_gradient(lambda rows: model.plain_forward(rows).logits, rows, parts)
    for own, other in zip(ours, theirs, strict=True):
        assert float((own - other).abs().max()) <= 1e-5 * max(1, float(other.abs().max()))
    expected = plainly(model, TEXTS, "leave_one_out")
    for own, other in zip(troth.explain(model, TEXTS, "leave_one_out"), expected, strict=True):
        np.testing.assert_allclose(own.scores, other.scores, atol=1e-5)


def test_equal_tokens_are_read_once(monkeypatch):
    """Below the first attention: as many rows of the first product as there are different tokens at a place."""
    model, seen = wrapped("bert", num_hidden_layers=3), []
    troth.explain(model, TEXTS[0], "leave_one_out")
    monkeypatch.setattr(products, "_LARGE", 1 << 30)
    monkeypatch.setattr(products, "exact", lambda values, module: seen.append(len(values)) or functional.linear(
        values, module.weight, module.bias
    ))  # fmt: skip
    (expected,) = plainly(model, TEXTS[1], "leave_one_out")
    (own,) = troth.explain(model, TEXTS[1], "leave_one_out")
    np.testing.assert_allclose(own.scores, expected.scores, atol=1e-5)
    tokens, words = len(own.question.encoding.ids), own.question.n_units
    assert seen[-12:-9] == [tokens + words] * 3  # each token, and the mask in the place of each word
    assert seen[-9] == tokens * words


def test_bfloat16_copies_are_of_the_weight_as_it_is_now():
    module, values = layer_and_values()
    copies = Copies()
    for _ in range(2):
        expected = functional.linear(values.bfloat16(), module.weight.bfloat16(), module.bias.bfloat16())
        torch.testing.assert_close(copies(values, module), expected, atol=1e-2, rtol=1e-2)
        given = values.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(copies(given, module).float().sum(), given)
        torch.testing.assert_close(gradient, module.weight.sum(0).expand_as(values), atol=2e-2, rtol=2e-2)
        module.weight.data += 1


@needs_onednn
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.full
@pytest.mark.alone
def test_a_thousand_shapes_take_little_memory():
    """oneDNN prepares itself for every number of rows, and by itself never forgets one."""
    code = """
        from pathlib import Path
        import torch
        from torch import nn
        from troth.models.fused.products import Exact

        def megabytes():
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

        torch.set_num_threads(1)
        layer, values, multiply = nn.Linear(96, 96), torch.randn(1200, 96), Exact(1)
        with torch.no_grad():
            multiply(values, layer)
            before = megabytes()
            for rows in range(128, 1128):
                multiply(values[:rows], layer)
        print(megabytes() - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    unset = {name: value for name, value in os.environ.items() if not name.endswith("_CACHE_CAPACITY")}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=unset)
    assert float(printed.stdout) < 150  # with all thousand remembered 600
