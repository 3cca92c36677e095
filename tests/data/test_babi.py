"""A rule solver, written without the generator, must find every answer and the facts behind it in the text alone."""

import os
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from troth.core.errors import TrothError
from troth.data import load_data
from troth.data.babi import read_stories

MOVE = "moved to|went to|went back to|journeyed to|travelled to"
GRAB = "got|grabbed|took|picked up"
DROP = "left|dropped|discarded|put down"
SENTENCE = re.compile(rf"(\w+) (?:({MOVE})|({GRAB})|({DROP})) the (\w+)(?: there)?\.")
official = pytest.mark.skipif(not Path(os.environ.get("TROTH_DATA", "missing"), "babi1").is_dir(), reason="TROTH_DATA")


def solve(story, question):
    """Room and facts: follow people and what they carry; a thing's stay remembers the move that brought it there."""
    room, holder, touch = {}, {}, {}
    stays = defaultdict(list)  # thing -> (room, sentence of the move)
    for place, sentence in enumerate(re.findall(r"[^.]+\.", story)):
        person, move, grab, _, object_ = SENTENCE.fullmatch(sentence.strip()).groups()
        if move:
            room[person] = (object_, place)
            for thing, by in holder.items():
                if by == person:
                    stays[thing].append(room[person])
            continue
        touch[object_] = place
        if person in room and (not stays[object_] or stays[object_][-1] != room[person]):
            stays[object_].append(room[person])
        if grab:
            holder[object_] = person
        else:
            del holder[object_]
    if match := re.fullmatch(r"Where is (\w+)\?", question):
        where, move = room[match[1]]
        return where, {move}
    if match := re.fullmatch(r"Where is the (\w+)\?", question):
        where, move = stays[match[1]][-1]
        return where, {touch[match[1]], move}
    thing, later = re.fullmatch(r"Where was the (\w+) before the (\w+)\?", question).groups()
    last = max(index for index, (where, _) in enumerate(stays[thing]) if where == later)
    (where, before), (_, after) = stays[thing][last - 1], stays[thing][last]
    return where, {touch[thing], before, after}


def check(example, labels):
    answer, facts = solve(example.text, example.text_pair)
    assert labels[example.label] == answer
    ends = [match.end() for match in re.finditer(r"\.", example.text)]
    sentences = list(zip([0, *(end + 1 for end in ends)], ends, strict=False))
    assert example.rationale == tuple(sentences[fact] for fact in sorted(facts))


@pytest.mark.parametrize("task", [1, 2, 3])
def test_every_story_can_be_solved_by_rule_from_its_facts(task):
    data = load_data(f"babi(task={task}, size=600, seed=5)", split="train")
    assert data.labels == ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
    for example in data:
        check(example, data.labels)
        assert len(example.rationale) == task


@pytest.mark.parametrize("task", [1, 2, 3])
def test_the_facts_name_the_answer_and_no_room_besides_the_one_asked_about(task):
    data = load_data(f"babi(task={task}, size=200)", split="test")
    for example in data:
        facts = " ".join(example.text[start:end] for start, end in example.rationale)
        rooms = re.findall("bathroom|bedroom|garden|hallway|kitchen|office", facts)
        asked = re.findall(r"before the (\w+)", example.text_pair)
        assert sorted(rooms) == sorted([data.labels[example.label], *asked])


@pytest.mark.parametrize("task", [1, 2, 3])
def test_a_seed_fixes_the_stories_and_a_size_only_adds(task):
    small, large = (load_data(f"babi(task={task}, size={size})", split="validation") for size in (40, 60))
    assert list(large)[:40] == list(small)
    assert large[:40].fingerprint == load_data(f"babi(task={task}, size=40)", split="validation").fingerprint
    assert small.fingerprint != load_data(f"babi(task={task}, size=40, seed=1)", split="validation").fingerprint


def test_no_story_is_in_two_splits_or_twice_in_one():
    stories = {}
    for seed in (0, 1):
        for split in ("train", "validation", "test"):
            data = load_data(f"babi(size=2000, seed={seed})", split=split)
            assert len({(example.text, example.text_pair) for example in data}) == 2000
            stories[split, seed] = {example.text for example in data}
    for split, seed in stories:
        for other, other_seed in stories:
            if split != other:
                assert not stories[split, seed] & stories[other, other_seed]


@pytest.mark.parametrize("task", [1, 2, 3])
def test_answers_are_near_uniform_and_lengths_near_the_published_ones(task):
    data = load_data(f"babi(task={task}, size=1500)", split="train")
    counts = Counter(example.label for example in data)
    # Chi-squared with 5 degrees of freedom; 20.5 is its 99.9 % point.
    assert sum((counts[label] - 250) ** 2 / 250 for label in range(6)) < 20.5
    sentences = sum(example.text.count(".") for example in data) / len(data)
    assert sentences == pytest.approx({1: 6.0, 2: 15.6, 3: 50.0}[task], rel=0.2)


def test_options_that_make_no_sense():
    for spec, message in {
        "babi(task=4)": "babi: task must be 1 or 2 or 3, not 4",
        "babi(size=0)": "babi: size must be 1 or more and seed 0 or more, not size=0, seed=0",
    }.items():
        with pytest.raises(TrothError) as caught:
            load_data(spec)
        assert str(caught.value) == message


ARCHIVE = (
    "1 Mary moved to the bathroom.\n2 John went to the hallway.\n3 Where is Mary? \tbathroom\t1\n"
    "4 Mary went to the office.\n5 Where is Mary? \toffice\t4\n"
    "1 John went to the garden.\n2 Where is John? \tgarden\t1\n"
)


def test_the_published_archive(tmp_path, monkeypatch):
    folder = tmp_path / "tasks_1-20_v1-2" / "en-10k"
    folder.mkdir(parents=True)
    (folder / "qa1_single-supporting-fact_test.txt").write_text(ARCHIVE)
    (folder / "qa10_indefinite-knowledge_test.txt").write_text("1 Not this one.\n")
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    data = load_data("babi1")
    assert [example.text_pair for example in data] == ["Where is Mary?", "Where is Mary?", "Where is John?"]
    assert data[1].text == "Mary moved to the bathroom. John went to the hallway. Mary went to the office."
    for example in data:
        check(example, data.labels)
    assert data.notes == ("test here has 3 rows, the official one 1,000",)
    (folder / "qa1_single-supporting-fact_test.txt").write_text("no number\n")
    with pytest.raises(TrothError, match="line 1 is not a line of a bAbI story"):
        read_stories(folder / "qa1_single-supporting-fact_test.txt")


@pytest.mark.data
@official
@pytest.mark.parametrize("task", [1, 2, 3])
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_solver_finds_every_official_answer_and_its_facts(task, split):
    data = load_data(f"babi{task}", split=split)
    for example in data:
        check(example, data.labels)
