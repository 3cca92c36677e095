"""Inputs that are endless, huge, nested too deeply or out of range: what is given, and what the line says."""

from __future__ import annotations

_FIFO, _DEVICE = "is a FIFO, not a regular file; save its content as a file", "is a device, not a regular file"
_HUGE, _DEEP = "or raise the limit with TROTH_MAX_FILE=", "nested too deeply"
_DIGITS, _ANY = "with more digits than can be read", ""

# Data, as a path in the folder of bad inputs.
DATA = [
    *[(f"fifo-a.{ending}", _FIFO) for ending in ("csv", "tsv", "jsonl", "json", "parquet", "csv.gz")],
    *[(f"{name}.{ending}", _DEVICE) for name in ("zero", "random") for ending in ("csv", "jsonl", "json", "parquet")],
    *[(f"{name}.csv.gz", _DEVICE) for name in ("zero", "random", "full")],
    ("socket.csv", "is a socket, not a regular file"),
    ("memory.csv", "memory.csv: "),
    ("loop.csv", "loop.csv: no such file or folder"),
    ("huge.csv", "has 3 GB, and at most 2 GB are read; use a smaller file, or raise the limit with TROTH_MAX_FILE=6GB"),
    ("huge.jsonl", _HUGE),
    ("huge.json", "has 1 GB, and at most 512 MB are read"),
    ("huge.parquet", _HUGE),
    ("huge.csv.gz", _HUGE),
    ("long.csv", "line 1 is longer than 64 MB"),
    ("long.jsonl", "line 1 is longer than 64 MB"),
    ("quote.csv", "longer than 64 MB"),
    *[(f"zeros.{ending}.gz", "expands to more than 100 times its size") for ending in ("csv", "jsonl", "json")],
    ("rows.csv.gz", "expands to more than 100 times its size"),
    ("deep.json.gz", "expands to more than 100 times its size"),
    ("repeated.parquet", "expands to more than 1,000 times its size"),
    ("nothing.parquet", "expands to 2.2 GB"),
    ("twice.csv.gz", "twice.csv.gz"),
    ("torn.csv.gz", "is not a complete gzip file"),
    ("broken.csv.gz", "is not a complete gzip file"),
    ("text.csv.gz", "is not a complete gzip file"),
    ("text.parquet", "cannot be read as parquet"),
    ("latin.csv", "line 2 is not UTF-8"),
    ("utf16.csv", "line 1 is not UTF-8"),
    ("nul.jsonl", "line 1 is not JSON"),
    ("deep.jsonl", f"line 1 is {_DEEP}"),
    ("deep.json", f"deep.json is {_DEEP}"),
    ("objects.json", f"objects.json is {_DEEP}"),
    ("nested.jsonl", f"line 1 is {_DEEP}"),
    ("digits.jsonl", f"line 1 contains an integer {_DIGITS}"),
    ("digits.json", _DIGITS),
    ("split-fifo", _FIFO),
    ("split-huge", _HUGE),
    ("split-deep", _DEEP),
    ("saved-fifo", _FIFO),
    ("saved-huge", _HUGE),
    ("saved-deep", _DEEP),
    ("saved-digits", _DIGITS),
    ("state-fifo", _FIFO),
    ("state-deep", _DEEP),
    ("arrow-fifo", _FIFO),
    ("arrow-huge", _HUGE),
    ("eraser-fifo", "names the document 'a', which is not in docs"),
    ("eraser-huge", _HUGE),
    ("eraser-packed-fifo", _FIFO),
    ("eraser-packed-deep", _DEEP),
    ("eraser-packed-huge", _HUGE),
]

# Plan files, as text.
_PLAN = 'models = ["model"]\ndata = ["data.jsonl"]\nexplainers = ["random"]\nmetrics = ["sparsity"]\n'
PLANS = [
    (f"{_PLAN}seeds = {'9' * 5_000}", f"plan.toml contains an integer {_DIGITS}"),
    (f"{_PLAN}seeds = [{'9' * 5_000}]", _DIGITS),
    (f"{_PLAN}limit = -{'9' * 5_000}", _DIGITS),
    (f"{_PLAN}seeds = 0x{'f' * 5_000}", "contains an integer of more than 64 bits"),
    (f"{_PLAN}seeds = 0o{'7' * 9_000}", "more than 64 bits"),
    (f"{_PLAN}seeds = 0b{'1' * 20_000}", "more than 64 bits"),
    (f"{_PLAN}seeds = {2**63}", "more than 64 bits"),
    (f"{_PLAN}limit = {10**30}", "more than 64 bits"),
    (f"{_PLAN}x = 1{'_1' * 5_000}", _DIGITS),
    (f"{_PLAN}limit = 1e400", "limit"),
    (f"{_PLAN}limit = nan", "limit"),
    (f"{_PLAN}x = {'[' * 50_000}", _DEEP),
    (f"{_PLAN}x = {'[' * 300}{']' * 300}", _DEEP),
    (f"{_PLAN}x = {'{a=' * 50_000}", _DEEP),
    (f"{_PLAN}{'a.' * 100_000}b = 1", _DEEP),
    (f"[{'a.' * 100_000}b]", _DEEP),
    (_PLAN + '"a" . ' * 1_000 + "b = 1", _DEEP),
    (f"{_PLAN}x = '{'a' * (1 << 20)}'", "has 1 MB, and at most 1 MB are read"),
    ("models = '''" + "a" * 100_000, "plan.toml"),
    ("\x00", "plan.toml"),
    ("=", "plan.toml"),
]

_SCRATCH = ["--data", "data.jsonl", "--base", "scratch", "--out", "new"]
# (arguments, what the line says)
COMMANDS = [
    (["sweep", "bad/fifo-plan.toml"], _FIFO),
    (["sweep", "bad/zero.toml"], _DEVICE),
    (["sweep", "bad/random.toml"], _DEVICE),
    (["sweep", "bad/huge.toml"], "has 2 MB, and at most 1 MB are read"),
    (["explain", "a good film", "-m", "bad/trained-fifo", "-e", "gradient"], "train.json is a pipe or a device"),
    (["explain", "a good film", "-m", "bad/trained-deep", "-e", "gradient"], f"train.json is {_DEEP}"),
    (["explain", "a good film", "-m", "bad/trained-nested", "-e", "gradient"], f"train.json is {_DEEP}"),
    (["explain", "a good film", "-m", "bad/trained-digits", "-e", "gradient"], _DIGITS),
    (["check", "-m", "bad/trained-deep", "-d", "data.jsonl", "--limit", "4"], f"train.json is {_DEEP}"),
    (["explain", "a good film", "-m", "bad/fifo-mine.py:predict", "--labels", "a,b"], _FIFO),
    (["explain", "a good film", "-m", "bad/mine.py:predict", "--labels", "a,b"], _HUGE),
    (["explain", "a good film", "-m", "model", "-e", "bad/fifo-mine.py:Mine"], _FIFO),
    (["explain", "a good film", "-m", "model", "--model-option", f"x={'[' * 50_000}"], _DEEP),
    (["explain", "a good film", "-m", "model", "--model-option", f"x={'9' * 5_000}"], _DIGITS),
    (["explain", "a", "-m", "model", "--prompt", "{text}", "--shots", "bad/fifo-a.csv", "--class-words", "a,b"], _FIFO),
    *[
        (["train", "salience", *_SCRATCH, "--salience", f"bad/{name}"], line)
        for name, line in {
            "fifo-a.jsonl": _FIFO, "fifo-a.json": _FIFO, "zero.jsonl": _DEVICE, "huge.jsonl": _HUGE, "deep.json": _DEEP,
            "nested.jsonl": _DEEP, "digits.jsonl": _DIGITS,
        }.items()
    ],
    *[
        (["train", "plain", *_SCRATCH, "--validation", f"bad/{name}"], line)
        for name, line in {"fifo-a.csv": _FIFO, "zero.csv": _DEVICE, "zeros.csv.gz": "expands to more than"}.items()
    ],
    *[
        (["train", "plain", *_SCRATCH, "--base", f"bilstm_attention(vectors='bad/{name}')"], line)
        for name, line in {
            "fifo-a.json": "there is no file", "zero.json": "there is no file",
            "huge.csv": "line 1 is longer than", "deep.json": _DEEP, "zeros.csv.gz": "expands to more than",
        }.items()
    ],
    (["fit", "attributive_masking", "-m", "model", "--data", "empty.csv", "--out", "new"], "8 of 8 texts are empty"),
    (["fit", "attributive_masking", "-m", "model", "--data", "bad/fifo-a.csv", "--out", "new"], _FIFO),
    (["bench", "-m", "model", "-d", "bad/fifo-a.csv", "--out", "new"], _FIFO),
    (["bench", "-m", "model", "-d", "bad/zeros.csv.gz", "--out", "new"], "expands to more than 100 times"),
]  # fmt: skip

# What verify is given; a record that cannot be read does not hold.
RECORDS = [
    ("fifo-record.json", _FIFO),
    ("record.json", _HUGE),
    ("deep.json", _DEEP),
    ("digits.json", _DIGITS),
    ("zero.json", _DEVICE),
    ("records-fifo", _FIFO),
]

# (SQL, options, what the line says)
_TIME = "the query was stopped after 1 seconds; ask for less, or allow more: --seconds 10"
_MEMORY = "of memory; ask for less, or allow more: --memory "
_SMALL = ("--memory", "128MB")
SQL = [
    ("with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t", (), _TIME),
    ("with recursive t(n) as (select 1 union all select n + 1 from t) select * from t", ("--csv",), _TIME),
    ("select count(*) from range(100000000) a, range(100000) b", (), _TIME),
    ("select levenshtein(repeat('a', 1000000), repeat('b', 1000000))", (), _TIME),
    ("select repeat('a', 4000000000)", (), _MEMORY),
    ("select repeat('a', 1000000000)", _SMALL, _MEMORY),
    ("select range(1000000000)", (), _MEMORY),
    ("select list_resize([1], 1000000000)", (), _MEMORY),
    ("select printf('%2000000000d', 1)", (), _MEMORY),
    ("select list(range) from range(1000000000)", _SMALL, _MEMORY),
    ("select * from range(100000000)", ("--json", *_SMALL), "the answer has more than 32 MB"),
    ("select * from range(100000000)", ("--limit", "0", *_SMALL), "the answer has more than 32 MB"),
    ("select '\udcff'", (), "the SQL is not valid Unicode (a lone surrogate)"),
    ("select 1 as \udc80", (), "the SQL is not valid Unicode"),
    ("select " + "(" * 20_000 + "1" + ")" * 20_000, (), "Max expression depth"),
    ("select " + "1 + " * 20_000 + "1", (), "Max expression depth"),
    ("select unnest(range(10000000000))", (), "Lists larger than"),
    ("select factorial(10000)", (), "out of range"),
    ("select * from read_blob('/dev/zero')", (), "Permission Error"),
    ("select * from glob('/*')", (), "Permission Error"),
    ("select 1", ("--limit", "9" * 20), "--limit must be at most 9,223,372,036,854,775,807, not 99999999999999999999"),
    ("select 1", ("--seconds", "0"), "--seconds must be above 0"),
    ("select 1", ("--seconds", "inf"), "--seconds must be a finite number, not inf"),
    ("select 1", ("--seconds", "1e9"), "--seconds must be above 0, and at most 86,400"),
    ("select 1", ("--memory", "lots"), "--memory must be a size such as 500MB or 8GB, not 'lots'"),
    ("select 1", ("--memory", "1KB"), "--memory must be 64MB to 1024GB, not 1KB"),
    ("select 1", ("--memory", "-1GB"), "--memory must be a size"),
    ("select 1", ("--memory", "9" * 12 + "TB"), "--memory must be 64MB to 1024GB"),
]  # fmt: skip

# Values that no option for numbers may take.
INTEGERS = ["9" * 20, "-" + "9" * 20]
FLOATS = ["nan", "1e999", "-inf"]

# What `load_data` is called with besides a good file.
CALLS = [
    ({"labels": 5}, "labels must be a list of texts"),
    ({"labels": "ab"}, "labels must be a list of texts"),
    ({"labels": None}, "labels must be a list of texts"),
    ({"labels": True}, "labels must be a list of texts"),
    ({"labels": b"ab"}, "labels must be a list of texts"),
    ({"labels": [1, 2]}, "labels must be a list of texts"),
    ({"labels": [["a"], ["b"]]}, "labels must be a list of texts"),
    ({"labels": ["\ud800", "b"]}, "labels must be a list of texts"),
    ({"labels": range(10**9)}, "labels must be a list of texts"),
    ({"labels": object()}, "labels must be a list of texts"),
    ({"split": 5}, "split must be the name of a split"),
    ({"split": ["train"]}, "split must be the name of a split"),
    ({"text": 5}, "text must be the name of a column"),
    ({"text": ["text"]}, "text must be the name of a column"),
    ({"text_pair": 5}, "text_pair must be the name of a column"),
    ({"label": ["label"]}, "label must be the name of a column"),
    ({"rationale": 5}, "rationale must be the name of a column"),
    ({"id": 5}, "id must be the name of a column"),
    ({"limit": "a"}, "limit must be a whole number"),
    ({"limit": 1.5}, "limit must be a whole number"),
    ({"limit": -1}, "limit must be at least 1"),
]
SOURCES = [
    (None, "data must be a name, a path, a list"),
    (5, "data must be a name, a path, a list"),
    ("", "not an empty text"),
    ("x/" * 3_000 + "a.csv", "no such file or folder"),
    ("\x00.csv", "no such file or folder"),
    ("\ud800.csv", "no such file or folder"),
    ([{5: "a"}], "has no text column; columns: 5"),
    ([{"text": "a", "label": 10**400}], "too large for the number of a class"),
]
