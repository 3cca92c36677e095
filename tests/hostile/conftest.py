import json
import shutil

import pytest
from tests.hostile.forks import Forks
from tests.sweep.works import ladder

import fakes
from troth import explain, load_model
from troth.commands.explain import keep_records
from troth.store.store import Store
from troth.sweep.run import run


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A run that waits for another process looks again at once: most tests here wait once."""
    monkeypatch.setattr("troth.sweep.scheduler._POLL", 0.02)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A model, one whose weights were cut off, and one with fewer word vectors than its tokenizer has words."""
    root = tmp_path_factory.mktemp("models")
    for name in ("model", "torn", "small"):
        model = fakes.hf_model(classes=2)
        if name == "small":
            model.resize_token_embeddings(8)
        model.save_pretrained(root / name)
        fakes.wordpiece().save_pretrained(root / name)
    weights = (root / "torn" / "model.safetensors").read_bytes()
    (root / "torn" / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    return root


@pytest.fixture(scope="session")
def room(tmp_path_factory, models):
    """A folder with models, data, a plan, a run, and things that are none of these."""
    folder = tmp_path_factory.mktemp("room")
    shutil.copytree(models, folder, dirs_exist_ok=True)  # a plan may not follow links out of its folder
    rows = [{"id": str(number), "text": text, "label": number % 2} for number, text in enumerate(fakes.CORPUS)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "plan.toml").write_text(
        'models = ["model"]\ndata = ["data.jsonl"]\nexplainers = ["random"]\nmetrics = ["sparsity"]\n'
    )
    (folder / "file").write_text("")
    (folder / "folder").mkdir()
    (folder / "unreadable.csv").symlink_to("/proc/self/mem")  # even for root
    run(ladder(1, 1), Store(folder / "run"), workers=1)
    model = load_model(str(folder / "model"))
    keep_records(folder / "record", [explain(model, "a good film", "gradient")], model, model.name, {}, {"seed": 0})
    return folder


@pytest.fixture(scope="session")
def troth():
    """Calls the command line in a child of its own."""
    forks = Forks()
    yield forks
    forks.close()
