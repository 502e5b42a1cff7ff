"""Headers of checkpoints: what the safetensors library writes is read back, and what lies is refused in one line."""

from __future__ import annotations

import ctypes
import json
import struct
from pathlib import Path

import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st

from flowcheck.draft import DraftError, Header, HeaderError, Tensor
from flowcheck.draft.checkpoint import header_in, read_header_file, shards_of
from flowcheck.draft.header import header_from
from flowcheck.draft.reading import read_header

DTYPES = {
    "BF16": ("bfloat16", 2),
    "F16": ("float16", 2),
    "F32": ("float32", 4),
    "F64": ("float64", 8),
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
    "F8_E4M3": ("float8_e4m3fn", 1),
}
"""What a header calls a type, what the library's writer does, and how many bytes it takes."""

Shapes = dict[str, tuple[str, list[int]]]


def written(tensors: Shapes, metadata: dict[str, str] | None = None) -> bytes:
    """A checkpoint of zeros, by the safetensors library itself."""
    buffers, specs = [], {}
    for name, (dtype, shape) in tensors.items():
        size = DTYPES[dtype][1]
        for each in shape:
            size *= each
        buffers.append(ctypes.create_string_buffer(max(size, 1)))
        specs[name] = safetensors.TensorSpec(
            dtype=DTYPES[dtype][0], shape=shape, data_ptr=ctypes.addressof(buffers[-1]), data_len=size
        )
    return safetensors.serialize(specs, metadata)


def spelled(header: dict[str, object] | bytes, data: int = 0) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * data


def entry(dtype: str = "BF16", shape: object = (2, 3), offsets: object = (0, 12)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def read(tmp_path: Path, data: bytes) -> Header:
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    return read_header_file(path, "model.safetensors")


def shapes_of(header: Header) -> Shapes:
    return {each.name: (each.dtype, list(each.shape)) for each in header.tensors.values()}


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 4), max_size=4)),
        min_size=1,
        max_size=6,
    ),
    st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)
def test_what_the_library_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, tensors: Shapes, metadata: dict[str, str] | None
) -> None:
    assert shapes_of(read(tmp_path_factory.mktemp("checkpoint"), written(tensors, metadata))) == tensors


GOOD = written({"fc.weight": ("BF16", [2, 3]), "norm.weight": ("F32", [4])})


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_whatever_the_library_refuses_of_a_damaged_header_is_refused_here(
    tmp_path_factory: pytest.TempPathFactory, index: int, value: int
) -> None:
    damaged = bytearray(GOOD)
    damaged[index] = value
    try:
        safetensors.deserialize(bytes(damaged))
    except safetensors.SafetensorError:
        with pytest.raises(HeaderError):
            read(tmp_path_factory.mktemp("checkpoint"), bytes(damaged))


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fall_over(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.raises(HeaderError) as caught:
        read(tmp_path_factory.mktemp("checkpoint"), data)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("length", range(0, len(GOOD), 7))
def test_a_file_that_is_cut_short_is_refused(tmp_path: Path, length: int) -> None:
    with pytest.raises(HeaderError):
        read(tmp_path, GOOD[:length])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is cut short: 0 bytes"),
        (struct.pack("<Q", 1 << 60), "it announces a header of 1152921504606846976 bytes"),
        (struct.pack("<Q", 1000) + b"{}", "announces a header of 1000 bytes and has 2 more"),
        (struct.pack("<Q", 0), "announces a header of 0 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        (spelled(b"[]"), "holds a list"),
        (spelled(b"\xff\xff"), "is not UTF-8"),
        (spelled(b'{"a":1,"a":2}'), "writes the key 'a' (a string) twice"),
        (spelled({"fc": 3}), "'fc' is 3 (an integer)"),
        (spelled({"fc": entry(dtype="BANANA")}, 12), "the dtype of 'fc' is 'BANANA' (a string)"),
        (spelled({"fc": entry(shape=[2, -3])}, 12), "the shape of 'fc' is [2, -3] (a list)"),
        (spelled({"fc": entry(shape=[2, 3.0])}, 12), "the shape of 'fc' is [2, 3.0]"),
        (spelled({"fc": entry(shape="2x3")}, 12), "the shape of 'fc' is '2x3' (a string)"),
        (spelled({"fc": entry(shape=[1 << 62, 1 << 62])}, 12), "claims a shape that no file can hold"),
        (spelled({"fc": entry(offsets=[0, 1 << 60])}, 12), "is said to lie at 0 to 1152921504606846976"),
        (spelled({"fc": entry(offsets=[12, 0])}, 12), "is said to lie at 12 to 0"),
        (spelled({"fc": entry(offsets=[0])}, 12), "the data_offsets of 'fc' are [0]"),
        (spelled({"fc": entry(shape=[2, 2])}, 12), "takes 8 bytes, and its data has 12"),
        (spelled({"a": entry(), "b": entry()}, 12), "the data of 'b' overlaps that of 'a'"),
        (spelled({"a": entry(offsets=[4, 16])}, 16), "4 bytes before 'a' belong to no tensor"),
        (spelled({"a": entry()}, 20), "the tensors take 12 bytes, and the file has 20 bytes of data"),
    ],
)
def test_a_header_that_lies_is_refused_with_what_it_claims(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(HeaderError) as caught:
        read(tmp_path, data)
    assert said in str(caught.value)


def test_only_the_header_of_a_large_file_is_read(tmp_path: Path) -> None:
    size = 200 * 1024**3
    path = tmp_path / "model.safetensors"
    head = spelled({"fc.weight": entry(shape=[size // 2], offsets=[0, size])})
    with path.open("wb") as stream:
        stream.write(head)
        stream.truncate(len(head) + size)  # a hole: it takes no room
    assert read_header_file(path, "x").tensors["fc.weight"].shape == (size // 2,)


class TestFolders:
    def sharded(self, folder: Path, index: dict[str, str], *shards: Shapes) -> None:
        for number, tensors in enumerate(shards, 1):
            (folder / f"model-{number}.safetensors").write_bytes(written(tensors))
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))

    def test_shards_are_joined_by_their_index(self, tmp_path: Path) -> None:
        index = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
        self.sharded(tmp_path, index, {"a": ("F32", [1])}, {"b": ("BF16", [2])})
        header = header_in(tmp_path, "draft")
        assert isinstance(header, Header)
        assert shapes_of(header) == {"a": ("F32", [1]), "b": ("BF16", [2])}
        assert header.files == 2

    def test_several_files_without_an_index_are_joined(self, tmp_path: Path) -> None:
        (tmp_path / "x.safetensors").write_bytes(written({"a": ("F32", [1])}))
        (tmp_path / "y.safetensors").write_bytes(written({"b": ("F32", [1])}))
        (tmp_path / "adapter_model.safetensors").write_bytes(written({"a": ("F32", [7])}))
        header = header_in(tmp_path, "draft")
        assert isinstance(header, Header)
        assert set(header.tensors) == {"a", "b"}

    @pytest.mark.parametrize(
        ("index", "said"),
        [
            ({"a": "model-1.safetensors", "b": "model-7.safetensors"}, "names model-7.safetensors, which is not there"),
            (
                {"a": "model-1.safetensors", "c": "model-1.safetensors"},
                "puts 'c' into model-1.safetensors, which does not",
            ),
            ({"a": "model-2.safetensors", "b": "model-1.safetensors"}, "it is in model-1.safetensors"),
            ({"a": "../model-1.safetensors"}, "no safetensors file beside it"),
            ({"a": "/etc/passwd"}, "no safetensors file beside it"),
            ({"a": "C:\\model.safetensors"}, "no safetensors file beside it"),
            ({"a": 3}, "the shard of 'a' is 3 (an integer)"),
            ({}, "its weight_map is {}"),
        ],
    )
    def test_an_index_that_lies_is_refused(self, tmp_path: Path, index: dict[str, str], said: str) -> None:
        self.sharded(tmp_path, index, {"a": ("F32", [1])}, {"b": ("BF16", [2])})
        with pytest.raises(HeaderError) as caught:
            header_in(tmp_path, "draft")
        assert said in str(caught.value)

    def test_a_tensor_in_two_files_is_refused(self, tmp_path: Path) -> None:
        for name in ("x", "y"):
            (tmp_path / f"{name}.safetensors").write_bytes(written({"a": ("F32", [1])}))
        with pytest.raises(HeaderError, match=r"'a' stands in x\.safetensors and in y\.safetensors"):
            header_in(tmp_path, "draft")

    def test_pickled_weights_have_no_header_to_read(self, tmp_path: Path) -> None:
        (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
        assert "pickled (pytorch_model.bin)" in str(header_in(tmp_path, "draft"))

    def test_no_weights_have_none_either(self, tmp_path: Path) -> None:
        assert header_in(tmp_path, "draft") == "there is no checkpoint beside the configuration"

    def test_a_dump_beside_the_configuration_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "header.json").write_text(
            json.dumps({"tensors": {"fc.weight": {"dtype": "BF16", "shape": [1, 2]}}})
        )
        header = header_in(tmp_path, "draft")
        assert isinstance(header, Header)
        assert str(header.fc) == "fc.weight [1, 2]"

    def test_an_index_given_as_a_header_says_what_to_name(self, tmp_path: Path) -> None:
        self.sharded(tmp_path, {"a": "model-1.safetensors"}, {"a": ("F32", [1])})
        with pytest.raises(HeaderError, match="name the folder that it lies in"):
            read_header(str(tmp_path / "model.safetensors.index.json"))

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DraftError, match="no such file"):
            read_header(str(tmp_path / "x.safetensors"))


def test_the_header_as_it_stands_in_a_file_is_a_dump_too() -> None:
    raw = {"__metadata__": {"format": "pt"}, "fc.weight": entry(shape=[2, 3])}
    assert header_from(raw, "x").tensors["fc.weight"].shape == (2, 3)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({}, "names no tensor"),
        ({"tensors": {}}, "names no tensor"),
        ({"tensors": {"a": {"dtype": "BF16"}}}, "the shape of 'a' is None (null)"),
        ({"tensors": {"a": [1]}}, "gives each tensor a dtype and a shape"),
        ({"hidden_size": 3}, "gives each tensor a dtype and a shape"),
    ],
)
def test_a_dump_that_is_none_is_refused(raw: dict[str, object], said: str) -> None:
    with pytest.raises(HeaderError) as caught:
        header_from(raw, "x")
    assert said in str(caught.value)


def test_an_index_without_a_table_is_none() -> None:
    with pytest.raises(HeaderError, match="is no index of shards"):
        shards_of({"weight_map": ["a"]}, "x")


def named(*names: str) -> Header:
    return Header("x", {name: Tensor(name, "BF16", (2, 2)) for name in names})


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("model.fc.weight", "fc.weight"),
        ("encoder.fc.weight", "fc.weight"),
        ("context_proj.weight", "context_proj.weight"),
    ],
)
def test_the_projection_is_found_under_its_other_names(name: str, plain: str) -> None:
    header = named(name)
    assert header.fc is not None
    assert header.fc.name == name
    assert header.find(plain) is not None


def test_layers_are_counted_under_any_prefix() -> None:
    assert list(named("midlayer.mlp.up_proj.weight").layers) == [0]
    assert list(named("model.layers.0.a", "model.layers.2.a").layers) == [0, 2]
    assert named("midlayer.a").layer_naming == "midlayer"
    assert named("layers.0.a").layer_naming == "layers"
    assert named("norm.weight").layer_naming == ""


def test_a_quantised_projection_hides_its_width() -> None:
    assert Tensor("fc.weight", "U8", (2, 2)).is_packed
    assert not Tensor("fc.weight", "F8_E4M3", (2, 2)).is_packed
