"""Whatever a spec, a data file or a plan holds: it is read, or refused in one line; the file stays as it is."""

import dataclasses
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from troth.core import catalog
from troth.core.errors import TrothError
from troth.data import load_data
from troth.sweep.plan_file import PlanFile

ANY_CHARACTER = st.characters(codec=None, exclude_categories=())  # lone surrogates, too
# What each format is made of, so that not all is refused at the first byte.
CSV = [
    "text",
    "label",
    "good film",
    "0",
    "1",
    ",",
    ";",
    "\t",
    '"',
    '""',
    "\n",
    "\r\n",
    "\r",
    "\ufeff",
    "NaN",
    "9" * 5000,
]
JSONL = [
    *["{", "}", "[", "]", ",", ":", "\n", '"text"', '"label"', '"id"', '"good film"', "0", "NaN", "1e999", "null"],
    *['{"text": "a", "label": 0}\n', '{"text": "b", "label": 1}\n', r'"\ud800"', "9" * 5000, "[" * 2000, "true"],
]
TOML = [
    *["models", "data", "explainers", "metrics", "seeds", "units", "=", "[", "]", "{", "}", "\n", '"', "1", "inf"],
    *['models = ["embedded"]\n', 'data = ["reviews"]\n', 'explainers = ["random"]\n', 'metrics = ["sparsity"]\n'],
    *["1979-05-27", "true", "9" * 5000, "[" * 2000, "[[models]]\n"],
]
SPEC = ["lime", "(", ")", "=", ",", "samples", "1", "-", "1e999", "'", "True", "zero", "[", ".", " ", "\n", "(" * 300]


def made_of(parts):
    return st.lists(st.sampled_from(parts), max_size=25).map("".join)


def bytes_like(parts):
    return st.binary(max_size=200) | made_of(parts).map(str.encode)


def refused(action, *given):
    """What an action gives, or None where it was refused in one line."""
    try:
        return action(*given)
    except TrothError as error:
        assert str(error).strip()
        assert "\n" not in str(error)
        return None


def read(name, content, reader):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        refused(reader, path)
        assert path.read_bytes() == content
        assert list(Path(folder).iterdir()) == [path]


@given(bytes_like(CSV))
def test_any_csv(content):
    read("data.csv", content, load_data)


@given(bytes_like(JSONL))
def test_any_jsonl(content):
    read("data.jsonl", content, load_data)


@given(bytes_like(TOML))
@example(b"seeds = " + b"9" * 5_000)
@example(b"seeds = 0x" + b"f" * 5_000)
def test_any_plan(content):
    read("plan.toml", content, PlanFile.read)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["random", "word"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["path", "data", "x"]), inner),
    max_leaves=6,
)
KEYS = ["models", "data", "explainers", "metrics", "seeds", "units", "target", "masking", "limit", "out", "other"]


@given(st.dictionaries(st.sampled_from(KEYS), values))
def test_a_plan_of_any_values(plan):
    lines = [f"{key} = {toml(value)}\n" for key, value in plan.items() if value is not None]
    read("plan.toml", "".join(lines).encode(errors="replace"), PlanFile.read)


def toml(value):
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(toml(one) for one in value if one is not None)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(one)}' for key, one in value.items() if one is not None)}}}"
    return json.dumps(value)


@given(st.text(ANY_CHARACTER, max_size=60) | made_of(SPEC))
@example("\ud800")
@example("(" * 20_000)
@example(f"lime(samples={'-' * 9_000}1)")
@example(f"lime(samples={'1+' * 4_000}1)")
@example(f"lime(samples={'9' * 5_000})")
@example(f"lime(samples=0x{'f' * 2_000})")
@example(f"lime(samples=0x{'f' * 9_000})")
@example(f"lime(samples=(0x{'f' * 9_000},))")
@example(f"lime(masking={'f(' * 3_000}{')' * 3_000})")
def test_any_spec(text):
    name_and_options = refused(catalog.parse, text)
    if name_and_options is not None:
        assert name_and_options[0].isidentifier()
    for kind in ("explainers", "metrics", "maskings"):
        refused(catalog.build, kind, text)


plain = st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
plain |= st.text(max_size=10).filter(lambda text: text.isprintable())


@given(st.dictionaries(st.sampled_from(["samples", "width", "of", "masking"]), plain | st.tuples(plain, plain)))
def test_options_are_read_as_they_are_written(options):
    text = ", ".join(f"{name}={value!r}" for name, value in options.items())
    assert catalog.parse(f"lime({text})") == ("lime", options)


@pytest.mark.parametrize("kind", ["explainers", "metrics", "maskings"])
@given(st.data())
def test_a_spec_builds_what_it_is_the_spec_of(kind, data):
    name = data.draw(st.sampled_from(catalog.names(kind)))
    drawn = {bool: st.booleans(), int: st.integers(1, 5)}
    fields = [field for field in dataclasses.fields(catalog.find(kind, name)) if field.init]
    options = {field.name: data.draw(drawn[type(field.default)]) for field in fields if type(field.default) in drawn}
    thing = refused(catalog.construct, catalog.find(kind, name), name, options)
    if thing is not None:
        assert catalog.build(kind, catalog.spec(thing)) == thing
        assert catalog.build(kind, catalog.spec(thing, full=True)) == thing
