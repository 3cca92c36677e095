import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import troth
from troth.core.errors import TrothError
from troth.training import checkpoints, recipes
from troth.training.bases.scratch import Scratch
from troth.training.corpus import Corpus, batches
from troth.training.fit import fit
from troth.training.recipes import Recipe
from troth.training.settings import Settings, settings
from troth.training.train import train

TINY = Scratch(layers=1, hidden=16, heads=2, positions=32)
STILL = Scratch(layers=1, hidden=16, heads=2, positions=32, dropout=0.0)
OPTIONS = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-2}


def weights(folder):
    return load_file(folder / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def corpora(model, *sets):
    return [
        Corpus(model.encode(examples, units="token", segments="both"), [one.label for one in examples])
        for examples in sets
    ]


def test_it_learns_and_the_folder_loads_everywhere(films, tmp_path):
    trained = train("masked", films(60), TINY, tmp_path, validation=films(20, start=100), **OPTIONS | {"epochs": 20})
    assert trained.scores["validation"]["unmasked"]["accuracy"] == 1.0
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    logits = plain(**tokenizer("the plot of this great film", return_tensors="pt")).logits[0]
    model = troth.load_model(str(tmp_path), device="cpu")
    (attribution,) = troth.explain(model, "the plot of this great film", "leave_one_out", target=1)
    np.testing.assert_allclose(attribution.probabilities, logits.softmax(-1).detach(), atol=1e-6)
    assert attribution.units[int(np.argmax(attribution.scores))] == "great"
    assert not (tmp_path / "checkpoints").exists()


def test_train_json_says_everything_and_repeats_it(films, tmp_path):
    trained = train("masked", films(40), TINY, tmp_path / "a", validation=films(10, start=100), seed=3, **OPTIONS)
    report = json.loads((tmp_path / "a" / "train.json").read_text())
    assert report == trained.report
    identity = report["identity"]
    assert identity["recipe"] == "masked(train='50/50', validate='both', masking='mask_token', variant='paper')"
    assert identity["base"].startswith("scratch(layers=1, hidden=16")
    assert (identity["seed"], identity["epochs"], identity["learning_rate"]) == (3, 3, 0.01)
    assert report["versions"]["torch"] == version("torch")  # without the build, such as +cu124
    assert [entry["epoch"] for entry in report["history"]] == [1, 2, 3]
    assert set(report["history"][0]["validation"]) == {"unmasked", "masked", "all_masked"}
    names = {field.name: identity[field.name] for field in dataclasses.fields(Settings)}
    again = train(
        identity["recipe"], films(40), identity["base"], tmp_path / "b", validation=films(10, start=100), **names
    )
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert again.report["history"] == report["history"]


def test_the_loop_is_the_plain_one_written_out(films):
    examples, held = films(20), films(6, start=50)
    chosen = settings(
        epochs=2, batch_size=8, learning_rate=1e-2, head_learning_rate=2e-2, warmup=0.3, clip=0.5, weight_decay=0.1,
        class_weights=(1.0, 3.0), best_by="last",
    )  # fmt: skip
    model, twin = (STILL.build(examples, ("bad", "good"), 0, None) for _ in range(2))
    fit(model, "plain", *corpora(model, examples, held), chosen)

    network = twin.model.train()
    decayed = [
        p for n, p in network.named_parameters() if "LayerNorm" not in n and "bias" not in n and "classifier" not in n
    ]
    spared = [p for n, p in network.named_parameters() if ("LayerNorm" in n or "bias" in n) and "classifier" not in n]
    groups = [
        {"params": decayed, "lr": 1e-2, "weight_decay": 0.1},
        {"params": spared, "lr": 1e-2, "weight_decay": 0.0},
        {"params": [network.classifier.weight], "lr": 2e-2, "weight_decay": 0.1},
        {"params": [network.classifier.bias], "lr": 2e-2, "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    full = [group["lr"] for group in groups]
    lengths = torch.tensor([len(one.ids) for one in twin.encode(examples)])
    step = 0
    for epoch in range(2):
        for batch in batches(lengths, 8, 0, epoch):
            chosen_examples = [examples[i] for i in batch.tolist()]
            inputs = twin.tokenizer([one.text for one in chosen_examples], padding=True, return_tensors="pt")
            gold = torch.tensor([one.label for one in chosen_examples])
            losses = torch.nn.functional.cross_entropy(network(**inputs).logits, gold, reduction="none")
            (losses * torch.tensor([1.0, 3.0])[gold]).mean().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            factor = step / 2 if step < 2 else (6 - step) / 4  # 6 steps, ceil(0.3 · 6) of them warm up
            for group, rate in zip(adam.param_groups, full, strict=True):
                group["lr"] = rate * factor
            adam.step()
            adam.zero_grad()
            step += 1
    for (name, found), expected in zip(model.model.named_parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=0, msg=name)


def test_more_passes_train_the_same_mini_batches(films):
    examples, held = films(20), films(6, start=50)
    found = []
    for rows_per_pass in (None, 3):
        model = STILL.build(examples, ("bad", "good"), 0, None)
        fit(model, "masked", *corpora(model, examples, held), settings(**OPTIONS, rows_per_pass=rows_per_pass))
        found.append(model.model.state_dict())
    for name in found[0]:
        torch.testing.assert_close(found[0][name], found[1][name], atol=2e-5, rtol=0)


@pytest.mark.parametrize("best_by", ["metric", "loss", "last"])
def test_the_best_epoch_is_the_one_kept(films, best_by):
    examples, held = films(40), films(10, start=50)
    model = TINY.build(examples, ("bad", "good"), 0, None)
    training, validation = corpora(model, examples, held)
    chosen = settings(epochs=5, batch_size=8, learning_rate=0.02, best_by=best_by, metric="macro_f1")
    fitted = fit(model, "plain", training, validation, chosen)
    values = {
        "metric": [entry["validation"]["unmasked"]["macro_f1"] for entry in fitted.history],
        "loss": [-entry["validation"]["unmasked"]["loss"] for entry in fitted.history],
        "last": [0, 1, 2, 3, 4],
    }[best_by]
    assert fitted.best_epoch == 1 + int(np.argmax(values))  # the first of equals
    # The weights are that epoch's: scored again, they give its numbers.
    best = fitted.history[fitted.best_epoch - 1]["validation"]["unmasked"]
    assert fitted.scores["validation"]["unmasked"] == best


def test_the_users_random_state_is_left_alone(films):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    model = TINY.build(films(8), ("bad", "good"), 0, None)
    fit(model, "plain", *corpora(model, films(8), films(4, start=20)), settings(epochs=1))
    assert torch.equal(torch.rand(1), expected)


SCRIPT = """
import sys, torch
torch.set_num_threads(1)
import transformers
transformers.logging.disable_progress_bar()
from troth.training.train import train
train("masked", "babi(size=48)", "scratch(layers=1, hidden=16, heads=2)", sys.argv[1], epochs=3, batch_size=4,
      learning_rate=1e-2, checkpoint_seconds=0)
"""


@pytest.mark.full
def test_killed_at_any_moment_and_resumed_it_ends_where_an_undisturbed_run_does(tmp_path):
    same_run = {"epochs": 3, "batch_size": 4, "learning_rate": 1e-2, "checkpoint_seconds": 0}
    base = "scratch(layers=1, hidden=16, heads=2)"
    whole = train("masked", "babi(size=48)", base, tmp_path / "whole", **same_run)
    out = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(out)])
    chance = random.Random(0)
    wanted = chance.randint(2, 24)  # of 36 steps
    reached = 0
    while process.poll() is None and reached < wanted:
        time.sleep(0.002)
        reached = max((int(path.name[5:14]) for path in out.glob("checkpoints/step-*")), default=0)
    time.sleep(chance.random() * 0.05)  # between two checkpoints, or in the midst of writing one
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it finished before it could be killed"
    assert not (out / "train.json").exists()
    resumed = train("masked", "babi(size=48)", base, out, **same_run)
    assert same(weights(tmp_path / "whole"), weights(out)), f"killed after step {reached}"
    for part in ("history", "scores", "best_epoch", "steps", "identity"):
        assert resumed.report[part] == whole.report[part]


def film(number):
    return troth.Example(f"film-{number}", f"the plot is {['awful', 'great'][number % 2]} w{number}", label=number % 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training of four steps, undisturbed: weights, and how to do it again."""
    data, held = [film(number) for number in range(16)], [film(number) for number in range(100, 104)]

    def again(folder):
        train("masked", data, TINY, folder, validation=held, checkpoint_seconds=0, **OPTIONS | {"epochs": 2})
        return weights(folder)

    return again(tmp_path_factory.mktemp("whole")), again


@pytest.mark.parametrize("moment", ["before", "within", "after"])
@pytest.mark.parametrize("save", [1, 2, 3])
def test_a_crash_around_any_checkpoint_changes_nothing(whole, tmp_path, monkeypatch, moment, save):
    expected, again = whole
    original, calls = checkpoints.Checkpoints.save, []

    class PowerCutError(BaseException):
        pass

    def cut_short(self, *arguments):
        calls.append(1)
        if len(calls) != save:
            return original(self, *arguments)
        if moment == "within":
            monkeypatch.setattr(checkpoints, "save_file", lambda *_: (_ for _ in ()).throw(PowerCutError))
            original(self, *arguments)
        if moment == "after":
            original(self, *arguments)
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.Checkpoints, "save", cut_short)
        with pytest.raises(PowerCutError):
            again(tmp_path)
    monkeypatch.undo()
    assert same(again(tmp_path), expected)


def test_a_finished_training_is_not_done_again(films, tmp_path):
    first = train("plain", films(20), TINY, tmp_path, validation=films(6, start=50), **OPTIONS)
    before = (tmp_path / "model.safetensors").stat().st_mtime_ns
    again = train("plain", films(20), TINY, tmp_path, validation=films(6, start=50), **OPTIONS)
    assert again.report == first.report
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == before


def stop_after(saves, monkeypatch):
    original, calls = checkpoints.Checkpoints.save, []

    def save(self, *arguments):
        original(self, *arguments)
        calls.append(1)
        if len(calls) == saves:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.Checkpoints, "save", save)


def test_a_checkpoint_or_result_of_another_run_is_refused(films, tmp_path, monkeypatch):
    held = films(6, start=50)
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            train("plain", films(20), TINY, tmp_path, validation=held, **OPTIONS)
    with pytest.raises(
        TrothError,
        match=r"was written by a different run: its seed is 0, not 1; choose another "
        r"--out.*--restart",
    ):
        train("plain", films(20), TINY, tmp_path, validation=held, seed=1, **OPTIONS)
    with pytest.raises(TrothError, match="was written by a different run: its training data is"):
        train("plain", films(21), TINY, tmp_path, validation=held, **OPTIONS)
    train("plain", films(21), TINY, tmp_path, validation=held, resume=False, **OPTIONS)
    with pytest.raises(TrothError, match="contains a different training: its epochs is 3, not 4"):
        train("plain", films(21), TINY, tmp_path, validation=held, **OPTIONS | {"epochs": 4})


def test_disk_full_while_saving_leaves_the_last_good_checkpoint(films, tmp_path, monkeypatch):
    held = films(10, start=100)
    train("masked", films(40), TINY, tmp_path / "whole", validation=held, checkpoint_seconds=0, **OPTIONS)
    original, calls = checkpoints.save_file, []

    def full(tensors, path):
        calls.extend(["checkpoint"] if path.endswith("optimizer.safetensors") else [])
        if len(calls) == 7:
            raise OSError(28, "No space left on device")
        original(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_file", full)
        with pytest.raises(
            TrothError, match=r"cannot save a checkpoint at step 7 .*No space left.*step-000000006 is kept"
        ):
            train("masked", films(40), TINY, tmp_path / "full", validation=held, checkpoint_seconds=0, **OPTIONS)
    left = sorted(path.name for path in (tmp_path / "full" / "checkpoints").iterdir())
    assert left == ["best-0001.safetensors", "step-000000006"]
    train("masked", films(40), TINY, tmp_path / "full", validation=held, checkpoint_seconds=0, **OPTIONS)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "full"))


def test_a_file_system_that_really_refuses_is_one_line(films, tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        with pytest.raises(TrothError, match=r"cannot save .* make room and run the same command again"):
            train("plain", films(20), TINY, tmp_path / "out", validation=films(6, start=50), **OPTIONS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@dataclass(frozen=True)
class Poison(Recipe):
    """A loss that is NaN for one example."""

    example: str = ""

    def penalty(self, output, rows):
        return torch.tensor([float("nan") if one.example.id == self.example else 0.0 for one in rows.encodings])


def test_a_loss_that_is_nan_stops_and_says_where(films):
    examples = films(20)
    model = STILL.build(examples, ("bad", "good"), 0, None)
    training, validation = corpora(model, examples, films(4, start=50))
    cut = batches(training.lengths, 8, 0, 0)
    place = next(number for number, batch in enumerate(cut) if 13 in batch.tolist())
    before = [name for name, _ in model.model.named_parameters()]
    with pytest.raises(TrothError) as caught:
        fit(model, Poison(example="film-13"), training, validation, settings(epochs=1, batch_size=8))
    first = examples[int(cut[place][0])].id
    assert f"the loss became nan at step {place + 1} (epoch 1), in the mini-batch of examples {first}" in str(
        caught.value
    )
    assert "lower the learning rate" in str(caught.value)
    assert before
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.model.parameters())


@dataclass(frozen=True)
class Pull(Recipe):
    """Adds the squared logits, by half."""

    def penalty(self, output, rows):
        return 0.5 * output.logits.square().sum(-1)


def test_what_a_recipe_adds_reaches_the_weights(films):
    examples, held = films(40), films(10, start=50)
    sizes = []
    for recipe in (recipes.build("masked"), recipes.Composed((recipes.build("masked"), Pull()))):
        model = STILL.build(examples, ("bad", "good"), 0, None)
        fit(model, recipe, *corpora(model, examples, held), settings(**OPTIONS | {"epochs": 6}, best_by="last"))
        with torch.no_grad():
            sizes.append(float(model.model(**model.tokenizer("the awful plot", return_tensors="pt")).logits.norm()))
    assert sizes[1] < 0.5 * sizes[0]


@dataclass(frozen=True)
class Attentive(Recipe):
    """Adds how much the last layer's first position attends to itself."""

    attentions: ClassVar[bool] = True

    def penalty(self, output, rows):
        weights = output.attentions[-1]
        assert weights.shape[-1] == rows.ids.shape[1]
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        return weights[:, :, 0, 0].mean(1)


def test_a_recipe_may_read_attention_weights(films):
    examples, held = films(40), films(10, start=50)
    found = []
    for recipe in (recipes.build("plain"), recipes.Composed((recipes.build("masked"), Attentive()))):
        model = STILL.build(examples, ("bad", "good"), 0, None)
        before = model.model.config._attn_implementation
        fit(model, recipe, *corpora(model, examples, held), settings(**OPTIONS, best_by="last"))
        assert model.model.config._attn_implementation == before
        rows = corpora(model, held)[0].rows(torch.arange(10), torch.zeros(10, dtype=torch.int64), model)
        found.append(float(model.forward(rows, attentions=True).attentions[-1][:, :, 0, 0].mean()))
    assert found[1] < 0.5 * found[0]


def test_class_weights_balance():
    from troth.training.settings import class_weights

    labels = torch.tensor([0] * 6 + [1] * 2)
    assert class_weights(settings(class_weights="balanced"), labels, 3).tolist() == pytest.approx([8 / 12, 2.0, 0.0])
    with pytest.raises(TrothError, match="class_weights has 2 numbers, but there are 3 classes"):
        class_weights(settings(class_weights=(1.0, 2.0)), labels, 3)


def test_a_pretrained_base_gets_a_head_for_the_classes(films, tmp_path):
    train("plain", films(20), TINY, tmp_path / "two", validation=films(6, start=50), **OPTIONS)
    three = [troth.Example(one.id, one.text, label=f"class {i % 3}") for i, one in enumerate(films(30))]
    train("masked", three, str(tmp_path / "two"), tmp_path / "three", **OPTIONS | {"epochs": 1})
    assert troth.load_model(str(tmp_path / "three"), device="cpu").labels == ("class 0", "class 1", "class 2")
    for path, message in [("./nowhere", "there is no model folder ./nowhere"), (str(tmp_path), "without config.json")]:
        with pytest.raises(TrothError, match=message):
            train("plain", films(20), path, tmp_path / "x")


def test_bilstm_trains_on_pairs_and_refuses_a_mixture(films, tmp_path):
    pairs = films(40, pair=True)
    trained = train(
        "masked",
        pairs,
        "bilstm_attention(embedding=8, hidden=8)",
        tmp_path,
        validation=films(10, start=100, pair=True),
        learning_rate=2e-2,
        epochs=16,
    )
    assert trained.scores["validation"]["unmasked"]["accuracy"] == 1.0
    model = troth.load_model(str(tmp_path), device="cpu")
    assert model.model.config.pair
    with pytest.raises(TrothError, match="20 of 40 examples have a second text"):
        train("plain", pairs[:20] + films(20, start=60), "bilstm_attention", tmp_path / "x", validation=pairs[30:])


LAUNCHED = """
import sys, warnings
import torch
torch.set_num_threads(1)
warnings.simplefilter("ignore")
from troth.training.train import train
train("masked", "babi(size=50)", "scratch(layers=1, hidden=16, heads=2, dropout=0.0)", sys.argv[1], epochs=2,
      batch_size=8, learning_rate=1e-3, clip=1.0, checkpoint_seconds=0, cpu=True)
"""


@pytest.mark.full
def test_two_processes_train_what_one_does(tmp_path):
    (tmp_path / "script.py").write_text(LAUNCHED)
    for processes in (1, 2):
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}", "--standalone"]
        subprocess.run([*command, str(tmp_path / "script.py"), str(tmp_path / str(processes))], check=True)
    one, two = weights(tmp_path / "1"), weights(tmp_path / "2")
    assert json.loads((tmp_path / "2" / "train.json").read_text())["processes"] == 2
    for name in one:
        torch.testing.assert_close(one[name], two[name], atol=1e-5, rtol=0)


def test_trainings_in_one_process_may_differ_in_precision(films):
    for precision in ("no", "bf16", "no"):
        model = TINY.build(films(16), ("bad", "good"), 0, None)
        chosen = settings(epochs=1, batch_size=8, precision=precision)
        fitted = fit(model, "plain", *corpora(model, films(16), films(4, start=20)), chosen, cpu=True)
        assert fitted.precision == precision
        assert model.model.forward.__func__ is type(model.model).forward  # the model is as it was


@pytest.mark.full
@pytest.mark.data
def test_bilstm_reaches_on_sst_what_the_roar_paper_reports(tmp_path):
    """82 % macro-F1, within 3 points, as the mean of seeds; TROTH_VECTORS names a file of word vectors."""
    if "TROTH_DATA" not in os.environ or "TROTH_VECTORS" not in os.environ:
        pytest.skip("needs SST in TROTH_DATA and word vectors in TROTH_VECTORS")
    base = f"bilstm_attention(vectors={os.environ['TROTH_VECTORS']!r})"
    found = [
        train("plain", "sst", base, tmp_path / str(seed), like="roar", tests=["test"], seed=seed) for seed in range(5)
    ]
    scores = [trained.scores["test"]["unmasked"]["macro_f1"] for trained in found]
    assert np.mean(scores) == pytest.approx(0.82, abs=0.03)
