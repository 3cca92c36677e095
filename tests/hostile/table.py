"""The table of bad inputs: what each command is given, and the values that each of its options must refuse."""

from __future__ import annotations

# What makes each command work, so that one bad option is all that is wrong.
_BASE = ["--data", "data.jsonl", "--base", "scratch", "--out", "new"]
GOOD = {
    "explain": ["a good film", "-m", "model", "-e", "gradient"],
    "bench": [
        *["-m", "model", "-d", "data.jsonl", "-e", "random", "--metrics", "sparsity"],
        *["--workers", "1", "--limit", "3", "--out", "new"],
    ],
    "check": ["-m", "model", "-d", "data.jsonl", "-e", "random", "--limit", "4"],
    "train": ["plain", *_BASE],
    "fit": ["attributive_masking", "-m", "model", "--data", "data.jsonl", "--out", "new"],
    "fresh": _BASE,
    "study": ["roar", "--only", "comparison", "--data", "data.jsonl", "--out", "new"],
    "sweep": ["plan.toml", "--out", "new", "--workers", "1"],
    "report": ["run"],
    "runs": ["."],
    "query": ["run", "select 1"],
    "diff": ["run", "run"],
    "list": [],
    "doctor": [],
}

# By the kind of an option.
NO_INTEGER = ["x", "", "1.5", "nan", "1e3", "٣x", "\x1b[2J", "--", "0x10"]
NO_NUMBER = ["x", "", "1,5", "\x07", "1e", "--"]
_HUGE = "9" * 30
_WORD = ["nonsense", "", "é" * 300, "\x1b[2J", "٣"]  # where few words are taken
_METHOD = ["loo", "", "(", "lime(", "__import__('os').system('touch owned')", "lime\x1b[31m", "é" * 300, "a;b"]
_MODEL = ["absent/of/everything", "./absent", "file", "folder", "torn", "\x1b[2J/a/b", "/dev/null", ""]
_DATA = ["absent.csv", "file", "folder", "reviws", "\x1b[2J.csv", "run", "", "unreadable.csv", "/dev/null", "é/ü.csv"]
_COUNT = ["-1", "0", _HUGE]  # where 1 is the least
_AMOUNT = ["nan", "inf", "-1"]  # where a number that can be counted with is needed
_PLACE = ["file", "file/below", "folder/../file", "x" * 300, "/dev/null/below"]
_EXPLAINER = [
    *_METHOD, "lime(samples=1000000000000)", "lime(samples=-1)", "lime(samples=1.5)", "lime(samples=True)",
    "lime(kernel_width=nan)", "lime(kernel_width=1e999)", "integrated_gradients(steps=0)",
    "integrated_gradients(steps=99999999999999)", "beam_search(width=0)", "lime(samples=2, samples=3)",
]  # fmt: skip
_METRIC = [
    *_METHOD, "sparsity(x=1)", "soft_comprehensiveness(samples=1000000000000)", "comprehensiveness(ratio=2)",
    "comprehensiveness(ratio=-1)", "recursive_erasure(step=0)",
]  # fmt: skip

# By the name of an option: values that no command of ours may take.
BAD = {
    "address": ["somewhere", "127.0.0.1:1"],
    "against": ["joyful", "99", "-7", _HUGE],
    "backbone": _MODEL,
    "base": [*_MODEL, "scratch(layers=0)", "scratch(hidden=-1)", "scratch(layers=99999999999999)", "scratch(x=1)"],
    "batch_size": ["-1"],
    "best_by": _WORD,
    "class_weights": ["x", "", "1", "1,nan", "1,-1", "1,2,3"],
    "class_words": ["good,bad", ""],
    "clip": ["0", *_AMOUNT],
    "data": _DATA,
    "device": ["meta", "", "nowhere", "cuda:99", "cpu:x", "\x07"],
    "engine": ["spark", "", "Ray", "\x1b"],
    "epochs": ["-1", _HUGE],
    "examples": ["-1", "0"],
    "explainer": _EXPLAINER,
    "explainers": _EXPLAINER,
    "gpus": _AMOUNT,
    "head_learning_rate": ["0", *_AMOUNT],
    "hold_out": ["0", "1", *_AMOUNT],
    "html": [".", "file/page.html", "folder"],
    "inverse_form": _WORD,
    "label": ["absent", "\x1b[2J"],
    "lambdas": ["x", "", "1,2", "1,nan,1", "1,-1,1", "1,2,3,4"],
    "learning_rate": _AMOUNT,
    "like": _WORD,
    "limit": ["-1"],
    "mask_text": ["x", ""],
    "masking": [*_METHOD, "mask_token(x=1)", "zero(1)", "gaussian(sigma=1e999)"],
    "max_length": _COUNT,
    "metric": _METHOD,
    "metrics": _METRIC,
    "model": _MODEL,
    "only": _WORD,
    "out": _PLACE,
    "precision": _WORD,
    "prompt": ["no place", "", "{text} {other}"],
    "ratio": ["0", "2", *_AMOUNT],
    "recipe": _METHOD,
    "references": _WORD,
    "rows_per_pass": ["-1", "0"],
    "salience": ["nonsense", "", "absent.jsonl", "file", "folder", "\x1b[2J"],
    "schedule": _WORD,
    "search": _WORD,
    "seeds": _COUNT,
    "segments": ["second", "", "0"],
    "shard": ["0/4", "5/4", "x", "1/0", "-1/4", "", "1/2/3"],
    "shot_count": ["-1", "0", "3"],
    "shots": [*_DATA, "data.jsonl"],
    "sort": ["nothing", "sparsit", ""],
    "sparsity_form": _WORD,
    "split": ["absent", "\x1b", ""],
    "step": ["nan", "0", "-1", "2", "0.3", "inf"],
    "support": _MODEL,
    "target": ["joyful", "99", "-7", "", _HUGE, "\x1b]0;x\x07"],
    "test": ["absent", "\x1b", ""],
    "text": ["absent", "\x1b[2J", ""],
    "text_pair": ["absent", "\x1b[2J"],
    "threads": ["0", "-1", "99999999"],
    "thresholder": _WORD,
    "trial_epochs": _AMOUNT,
    "trial_examples": ["-1", "0"],
    "trials": _COUNT,
    "units": ["letter", "", "Word", "word\x1b", "é"],
    "validation": ["-1", "absent.csv", "file", "folder", ""],
    "validation_data": _DATA,
    "validation_split": ["absent", "\x1b", ""],
    "variant": _WORD,
    "warmup": ["2", *_AMOUNT],
    "weight_decay": _AMOUNT,
    "without": _WORD,
    "workers": ["0", "-1", "99999999"],
    # of one command only, in place of the option's own
    "fresh weight": _AMOUNT,
    "study base": [name for name in _MODEL if name != "torn"],  # a study's models are read where they are trained
    "report out": ["folder", "file/below", "x" * 300, "/dev/null/below"],
}

# (arguments, what the line says)
OTHERS = [
    (["explan"], "No such command 'explan'"),
    (["\x1b]0;x\x07"], r"No such command"),
    (["explain", "x", "--explainr", "lime"], "No such option: --explainr"),
    (["explain", "\udcff"], "the text is not valid Unicode"),
    (["explain", "a", "-m", "\udcff/a/b"], r"there is no model folder \xff/a/b"),
    (["explain", ""], "the text is empty"),
    (["explain", "a", "b", "--pair", "c"], "--pair goes with one text, not 2"),
    (["explain", "a", "-m", "model", "--no-chat"], "chat goes with a prompt"),
    (["explain", "a", "-m", "small", "-e", "gradient"], "word vectors; use the tokenizer it was trained with"),
    (["explain", "a", "-m", "torn"], "cannot load torn as a text classifier"),
    (["train", "plain", "--data", "data.jsonl", "--base", "torn", "--out", "new"], "cannot load torn to train it"),
    (["explain", "a", "-m", "model", "--html", ""], "cannot write"),
    (["sweep", "absent.toml"], "there is no plan file absent.toml"),
    (["sweep", "folder"], "folder is not a plan file"),
    (["sweep", "data.jsonl"], "data.jsonl: line 1"),
    (["sweep", "file"], "models is missing"),
    (["sweep", "\udcff.toml"], r"there is no plan file \xff.toml"),
    (["sweep", "plan.toml", "--out", "new", "--address", "1.2.3.4:1"], "address goes with engine ray"),
    (["sweep", "plan.toml", "--out", "new", "--gpus", "1"], "gpus goes with engine ray"),
    (["report", "absent"], "no run is called 'absent'"),
    (["report", "\x1b[2J"], r"no run is called '\x1b[2J'"),
    (["report", "folder"], "no run is called 'folder'"),
    (["runs", "absent"], "there is no folder absent"),
    (["runs", "file"], "there is no folder file"),
    (["runs", "\x1b[2J"], r"there is no folder \x1b[2J"),
    (["query", "absent", "select 1"], "no run is called 'absent'"),
    (["query", "run", "drop table cells"], "a run can only be read"),
    (["query", "run", ""], "a run can only be read"),
    (["query", "run", "select '"], "Parser Error"),
    (["query", "run", "select \x1b"], r"\x1b"),
    (["query", "run", "select * from read_csv('/etc/passwd')"], "Permission Error"),
    (["query", "run", "copy cells to 'x.csv'"], "a run can only be read"),
    (["query", "run", "attach 'x.db'"], "a run can only be read"),
    (["query", "run", "install httpfs"], "a run can only be read"),
    (["query", "run", "select 1; select 2"], "a run can only be read"),
    (["diff", "run", "absent"], "no run is called 'absent'"),
    (["list", "explainer"], "did you mean explainers?"),
    (["list", "\x1b[31m"], r"no kind is called '\x1b[31m'"),
    (["train", "salience", *_BASE, "--salience", "run:nothing"], "no explanation in run is called 'nothing'"),
    (["train", "salience", *_BASE, "--lambda", "nan"], "nan"),
    (["train", "salience", *_BASE, "--lambda", "-1"], "-1"),
    (["bench", *GOOD["bench"], "-m", "small"], "word vectors"),
    (["bench", *GOOD["bench"], "-m", "smal"], "smal"),
    (["bench", "--out", "folder/../file", "--limit", "2"], "file"),
]
