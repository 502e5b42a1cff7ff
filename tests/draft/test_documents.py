"""Bad JSON is refused in one line that names what is wrong."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck.draft import ConfigError, DraftError, HeaderError, draft_from, mismatches_of, pair, target_from
from flowcheck.draft.checkpoint import read_header_file
from flowcheck.draft.documents import MAX_CONFIG_BYTES, Document, parse_object, read_object
from tests.draft.samples import NESTED, draft_json, one_clear_line, target_json


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "line 1, column 2"),
        (b'{"a": 1,}', "not valid JSON"),
        (b"[1]", "holds a list where a JSON object is expected"),
        (b"null", "holds null"),
        (b"1.5", "holds a float"),
        (b'"a"', "holds a string"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "byte order mark"),
        (b'{"a": "\xff"}', "not UTF-8 (byte 7)"),
        (b'{"hidden_size": 1, "hidden_size": 2}', "writes the key 'hidden_size' (a string) twice"),
        pytest.param(b'{"a":' * 100 + b"1" + b"}" * 100, "nested deeper", id="deep"),
        pytest.param(b'{"a":' * 200_000, "nested deeper", id="deep without end"),
        pytest.param(b'{"a":' + b"[" * 200_000, "nested deeper", id="lists without end"),
        pytest.param(b'{"a": ' + b"9" * 10_000 + b"}", "not valid JSON", id="a number of 10 000 digits"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": 1} x', "not valid JSON"),
        (b"\0" * 10, "not valid JSON"),
    ],
)
def test_what_is_no_json_object_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_object(data, "config.json")
    assert said in str(caught.value)
    assert str(caught.value).startswith("config.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_key_that_is_written_twice_with_one_value_is_fine() -> None:
    assert parse_object(b'{"a": 1, "a": 1}', "x") == {"a": 1}


def test_true_and_one_are_two_values() -> None:
    with pytest.raises(ConfigError, match="twice"):
        parse_object(b'{"a": 1, "a": true}', "x")


def test_what_python_writes_beyond_json_is_read() -> None:
    value = parse_object(b'{"a": Infinity, "b": NaN, "c": 1e999}', "x")
    assert value["a"] == value["c"] == math.inf
    assert math.isnan(value["b"])


def test_a_config_of_50_mb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as stream:
        stream.truncate(50 * 1024 * 1024)
    with pytest.raises(ConfigError, match=r"too large: 50 MB, and no more than 8 MB is read"):
        read_object(path, "config.json")
    assert MAX_CONFIG_BYTES < 50 * 1024 * 1024


def test_a_folder_a_pipe_and_nothing_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder where a file is expected"):
        read_object(tmp_path, "config.json")
    with pytest.raises(ConfigError, match=r"no such file: config\.json"):
        read_object(tmp_path / "x", "config.json")
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_object(Path(os.devnull), "config.json")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_object(tmp_path / "pipe", "config.json")
    with pytest.raises(HeaderError, match="is not a regular file"):
        read_header_file(tmp_path / "pipe", "model.safetensors")


def test_an_unreadable_file_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match=r"cannot read config\.json: Permission denied"):
        read_object(tmp_path / "config.json", "config.json")


BAD_IDS = [
    ("1,29,57", "is '1,29,57' (a string); it has to be a list of integers"),
    (["1", "29"], f"eagle_config.{NESTED}[0] is '1' (a string); layer ids have to be integers"),
    ([1, 29.0], f"eagle_config.{NESTED}[1] is 29.0 (a float)"),
    ([True, 2], "[0] is True (a boolean)"),
    ([[1], [29]], "[0] is [1] (a list)"),
    ([1, None], "[1] is None (null)"),
    ([1, math.nan], "[1] is nan (a float)"),
    ([1, {}], "[1] is {} (an object)"),
    ({"a": 1}, "is {…} (an object)"),
    (7, "is 7 (an integer)"),
]


@pytest.mark.parametrize(("ids", "said"), BAD_IDS)
def test_ids_of_a_wrong_type_are_named(ids: object, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        draft_from(draft_json(eagle_config={NESTED: ids}), "my draft")
    assert said in str(caught.value)
    assert str(caught.value).startswith("my draft: ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": "4096"}, "hidden_size is '4096' (a string); it has to be an integer"),
        ({"hidden_size": 4096.0}, "hidden_size is 4096.0 (a float)"),
        ({"hidden_size": True}, "hidden_size is True (a boolean)"),
        ({"hidden_size": 0}, "hidden_size is 0 (an integer); it has to be at least 1"),
        ({"hidden_size": 10**40}, "which no model can have"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({"eagle_config": [1]}, "eagle_config is [1] (a list); it has to be an object"),
        (
            {"eagle_config": {"use_aux_hidden_state": "false"}},
            "eagle_config.use_aux_hidden_state is 'false' (a string)",
        ),
        ({"architectures": "LlamaForCausalLMEagle3"}, "architectures is"),
        ({"architectures": [1]}, "architectures is [1] (a list); it has to be a list of strings"),
        ({"draft_vocab_size": "32000"}, "draft_vocab_size is"),
        ({"fc_norm": 1}, "fc_norm is 1 (an integer); it has to be true or false"),
        ({"speculators_config": {"verifier": "x"}}, "speculators_config.verifier is 'x' (a string)"),
        ({"rope_scaling": "linear"}, "rope_scaling is 'linear' (a string)"),
    ],
)
def test_values_of_a_wrong_type_are_named(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        draft_from(draft_json(**changes), "draft")
    assert said in str(caught.value)


def test_null_reads_as_absent_and_is_told_apart() -> None:
    document = Document("x", {"a": None})
    assert document.integer("a") is None
    assert document.has("a")
    assert not document.has("b")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = [
    "architectures",
    "model_type",
    "hidden_size",
    "num_hidden_layers",
    "num_layers",
    "vocab_size",
    "draft_vocab_size",
    "eagle_config",
    "dflash_config",
    "target_layer_ids",
    "text_config",
    "transformer_layer_config",
    "speculators_config",
    "rope_scaling",
    "max_position_embeddings",
    "num_aux_hidden_states",
    "num_loops",
    NESTED,
]


@given(st.dictionaries(st.sampled_from(KEYS), json_values, max_size=8))
def test_no_json_makes_a_draft_or_a_target_fall_over(changes: dict[str, object]) -> None:
    read = []
    for make in (
        lambda: draft_from({**draft_json(), **changes}, "draft"),
        lambda: target_from({**target_json(), **changes}, "t"),
    ):
        try:
            read.append(make())
        except DraftError as problem:
            one_clear_line(problem)
    if len(read) == 2:
        mismatches_of(pair(read[0], read[1]), algorithm="EAGLE")  # type: ignore[arg-type]


@given(st.binary(max_size=64) | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_make_the_reader_fall_over(data: bytes) -> None:
    try:
        assert isinstance(parse_object(data, "x"), dict)
    except ConfigError as problem:
        one_clear_line(problem)
