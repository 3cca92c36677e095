"""Integrated gradients of a long text take little memory, however many steps there are."""

import subprocess
import sys
from pathlib import Path

import pytest

# A process of its own: what others have freed would otherwise be used again and not be seen.
CODE = """
import sys, threading, time
import torch
from transformers import BertConfig, BertForSequenceClassification
import fakes
from troth.verbs.explain import explain_each
from troth.models.encoder import Encoder
from troth.engine.prober import Prober
from troth.core.types import Example

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

torch.set_num_threads(1)
tokenizer = fakes.tokenizer_for("bert")
tokenizer.model_max_length = 512
config = BertConfig(vocab_size=30_000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                    intermediate_size=1536, num_labels=2, pad_token_id=tokenizer.pad_token_id)
model = Encoder(BertForSequenceClassification(config).eval(), tokenizer, name="six layers")
method = f"integrated_gradients(steps={sys.argv[1]})"
list(explain_each(Prober(model), [Example("short", "good film")], method))
before, most, done = resident(), [0], threading.Event()

def watch():
    while not done.wait(0.005):
        most[0] = max(most[0], resident())

watcher = threading.Thread(target=watch)
watcher.start()
(found,) = explain_each(Prober(model), [Example("long", " ".join(["good"] * 510))], method, units="token")
done.set()
watcher.join()
assert len(found.scores) == 510
print((most[0] - before) / 1e6)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("steps", [6, 50])
def test_integrated_gradients_of_512_tokens_take_less_than_200_mb_above_the_model(steps):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(steps)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1] / "support",
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 200
