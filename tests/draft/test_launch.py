"""A launch is read from a script as a shell would read it, and what only the shell knows is reported."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck.draft import LaunchError
from flowcheck.draft.launch import Launch, launches_in, read_launch
from tests.draft.samples import one_clear_line

PYTHON = "python -m sglang.launch_server"


def one(script: str) -> Launch:
    (found,) = launches_in(script)
    return found


def left(script: str) -> list[tuple[str, str]]:
    return [(each.argument, each.text) for each in one(script).unread]


SERVE = r"""#!/usr/bin/env bash
# python -m sglang.launch_server --model-path commented/out
set -euo pipefail
export SGLANG_ENABLE_SPEC_V2=1
NCCL_DEBUG=INFO exec numactl -N 0 python3 -u -m sglang.launch_server \
  --model-path moonshotai/Kimi-K2.5 --revision abc123 \
  --speculative-algorithm EAGLE3 \
  --speculative-draft-model-path=/models/kimi-eagle3 \
  --tp 8 --trust-remote-code \
  --mem-fraction-static 0.85 --cuda-graph-bs 1 2 4 \
  --json-model-override-args '{"rope_scaling": {"factor": 2.0, "note": "costs $5"}}' \
  > serve.log 2>&1 &
"""


def test_a_whole_script(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text(SERVE)
    launch = read_launch(path)
    assert launch.line == 5
    assert launch.arguments == {
        "model_path": "moonshotai/Kimi-K2.5",
        "revision": "abc123",
        "speculative_algorithm": "EAGLE3",
        "speculative_draft_model_path": "/models/kimi-eagle3",
        "tp_size": 8,
        "trust_remote_code": True,
        "mem_fraction_static": 0.85,
        "cuda_graph_bs": (1, 2, 4),
        "json_model_override_args": '{"rope_scaling": {"factor": 2.0, "note": "costs $5"}}',
    }
    assert launch.environment == {"SGLANG_ENABLE_SPEC_V2": "1", "NCCL_DEBUG": "INFO"}
    assert launch.unread == ()
    assert (launch.model, launch.draft) == ("moonshotai/Kimi-K2.5@abc123", "/models/kimi-eagle3")
    assert (launch.algorithm, launch.tensor_parallel) == ("EAGLE3", 8)
    assert launch.model_override["rope_scaling"]["factor"] == 2.0


@pytest.mark.parametrize(
    "command",
    [
        f"{PYTHON} --model-path m",
        "python3.11 -u -m sglang.launch_server --model m",
        "sglang serve m",
        "sglang serve --model-path m",
        "/opt/bin/sglang serve m --trust-remote-code",
        "python /srv/sglang/launch_server.py --model-path=m",
        "uv run python -m sglang.launch_server --model-path m",
        "docker run --gpus all -v /a:/b image python -m sglang.launch_server --model-path m",
        'docker run image bash -c "python -m sglang.launch_server --model-path m"',
        "ssh host 'cd /srv && python -m sglang.launch_server --model-path m'",
        "cd /srv && python -m sglang.launch_server --model-path m | tee log",
        "if true; then\n  python -m sglang.launch_server --model-path m\nfi",
        "nohup python -m sglang.launch_server --model-path m >&log&",
        "(python -m sglang.launch_server --model-path m)",
        "while true; do python -m sglang.launch_server --model-path m; done",
        "time python -m sglang.launch_server --model-path m",
        "python -m sglang.launch_server --model-path \\\n  m",
        "python -m sglang.launch_server --model-path\\\r\n m",
        "serve() { python -m sglang.launch_server --model-path m; }\nserve",
        "python -m sglang.launch_server --mo'del'-path \"m\" # tail",
        f"echo {PYTHON}; {PYTHON} --model-path m",
        f"cat > x.sh <<'EOF'\nit's {PYTHON} --model-path other\nEOF\n{PYTHON} --model-path m",
    ],
)
def test_forms_of_a_launch(command: str) -> None:
    assert one(command).model_path == "m"


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        ("--tp 8", "tp_size", 8),
        ("--tp-size=8", "tp_size", 8),
        ("--tensor-parallel-size 8", "tp_size", 8),
        ("--dp 2", "dp_size", 2),
        ("--ep-size 4", "ep_size", 4),
        ("--speculative-algo eagle3", "speculative_algorithm", "eagle3"),
        ("--speculative-draft-model d", "speculative_draft_model_path", "d"),
        ("--enable-dp-attention", "enable_dp_attention", True),
        ("--enable_dp_attention", "enable_dp_attention", True),
        ("--speculative-num-steps 3", "speculative_num_steps", 3),
        ("--schedule-conservativeness 1e-2", "schedule_conservativeness", 0.01),
        ("--nccl-port -1", "nccl_port", -1),
        ("--tp 4 --tp 8", "tp_size", 8),
        ("--served-model-name 123", "served_model_name", "123"),
        ("--quantization none", "quantization", None),
        ("--x=", "x", ""),
        ("--attention-backend 'a b'", "attention_backend", "a b"),
    ],
)
def test_arguments_have_the_names_and_types_of_the_server(flags: str, name: str, value: object) -> None:
    found = one(f"{PYTHON} {flags}").arguments[name]
    assert found == value
    assert type(found) is type(value)


class TestWhatOnlyTheShellKnows:
    @pytest.mark.parametrize(
        "value",
        ["$TP", '"$TP"', "${TP}", "${TP:-8}", "$(nproc)", "`nproc`", '"$(nvidia-smi | wc -l)"', "$1", "$((4 * 2))"],
    )
    def test_is_reported_and_not_guessed(self, value: str) -> None:
        launch = one(f"{PYTHON} --model-path m --tp {value}")
        assert "tp_size" not in launch.arguments
        assert launch.tensor_parallel is None
        (unread,) = launch.unread
        assert (unread.argument, unread.line) == ("tp_size", 1)
        assert str(unread).startswith("line 1: tp_size: ")

    def test_a_value_that_comes_last_takes_the_earlier_one_away(self) -> None:
        assert "tp_size" not in one(f"{PYTHON} --tp 4 --tp $TP").arguments

    def test_may_stand_for_any_arguments(self) -> None:
        assert left(f'{PYTHON} --host 0.0.0.0 "$@"') == [("", "$@")]
        assert one(f'{PYTHON} --host 0.0.0.0 "$@"').arguments["host"] == "0.0.0.0"
        assert left(f"{PYTHON} $EXTRA --tp 8") == [("", "$EXTRA")]

    def test_a_part_of_a_value(self) -> None:
        assert left(f"{PYTHON} --model-path $ROOT/kimi") == [("model_path", "$ROOT/kimi")]

    def test_is_not_what_quotes_protect(self) -> None:
        assert one(rf"{PYTHON} --x '$A' --y \$B --z '`c`'").arguments == {"x": "$A", "y": "$B", "z": "`c`"}

    def test_the_environment_too(self) -> None:
        script = f"export A=$B\nexport C=1\nif x; then export D=2; fi\ntest -f y && export E=3\nF=$G {PYTHON}"
        assert one(script).environment == {"C": "1"}
        assert [name for name, _ in left(script)] == ["A", "D", "E", "F"]

    def test_a_file_with_arguments(self) -> None:
        assert left(f"{PYTHON} --config serve.yaml") == [("", "serve.yaml")]

    def test_words_of_no_argument(self) -> None:
        assert left(f"{PYTHON} hello --tp 8") == [("", "hello")]


class TestConstants:
    def test_a_variable_with_one_value_is_read(self) -> None:
        script = f"MODEL=/models/kimi\nexport DRAFT='/my models/d'\n{PYTHON} --model-path $MODEL --x \"${{DRAFT}}/y\""
        assert one(script).arguments == {"model_path": "/models/kimi", "x": "/my models/d/y"}

    @pytest.mark.parametrize(
        "before",
        [
            "M=a\nM=b",
            "M=a\nM+=b",
            "if x; then M=a; fi",
            "test x && M=a",
            "for M in a b; do true; done\nM=a",
            "M=a\nread M",
            "M=a\nsource settings.sh",
            "M=a\n. settings.sh",
            'M=a\neval "$x"',
            "M=${1:-a}",
            "(M=a)",
            "f() { M=a; }",
            "M=a true",
            "M='a b'",
            "M=a\nunset M",
            "M=a\nlocal M",
            "while read -r M; do true; done < x\nM=a",
        ],
    )
    def test_a_variable_that_may_have_another_is_not(self, before: str) -> None:
        assert left(f"{before}\n{PYTHON} --model-path $M") == [("model_path", "$M")]

    def test_nor_is_one_that_is_set_later(self) -> None:
        assert left(f"{PYTHON} --model-path $M\nM=a") == [("model_path", "$M")]

    def test_its_text_is_taken_as_it_is(self) -> None:
        assert one(f'M=\'$x`y`"z\\\'\n{PYTHON} --x "$M"').arguments == {"x": '$x`y`"z\\'}


class TestContainers:
    def test_variables_of_a_container_are_its_environment(self) -> None:
        assert one(f"docker run -e A=1 --env B=2 --env=C=3 -v d=e image {PYTHON}").environment == {
            "A": "1",
            "B": "2",
            "C": "3",
        }

    def test_env_is_read(self) -> None:
        assert one(f"env A=1 B=2 {PYTHON}").environment == {"A": "1", "B": "2"}


def test_secrets_are_hidden() -> None:
    launch = one(f"export HF_TOKEN=hf_abcdefgh\nMY_API_KEY=x {PYTHON} --api-key sk-123 --max-total-tokens 5")
    assert launch.environment == {"HF_TOKEN": "(hidden)", "MY_API_KEY": "(hidden)"}
    assert launch.arguments == {"api_key": "(hidden)", "max_total_tokens": 5}


class TestErrors:
    def read(self, tmp_path: Path, content: bytes) -> str:
        path = tmp_path / "serve.sh"
        path.write_bytes(content)
        with pytest.raises(LaunchError) as caught:
            read_launch(path)
        return str(caught.value)

    def test_no_launch(self, tmp_path: Path) -> None:
        assert "holds no launch of SGLang" in self.read(tmp_path, b"echo hello\n")
        assert "holds no launch of SGLang" in self.read(tmp_path, b"")
        assert "holds no launch of SGLang" in self.read(tmp_path, b"vllm serve x")

    def test_several(self, tmp_path: Path) -> None:
        assert "holds 2 launches (lines 1, 2)" in self.read(tmp_path, f"{PYTHON} &\n{PYTHON}\n".encode())

    def test_a_quote_without_end(self, tmp_path: Path) -> None:
        said = self.read(tmp_path, f"echo x\n{PYTHON} --model-path 'm\n".encode())
        assert "the launch on line 2 cannot be read: no closing quotation" in said

    def test_a_command_without_end(self, tmp_path: Path) -> None:
        said = self.read(tmp_path, f"{PYTHON} --x {'$' * 200_000}".encode())
        assert "cannot be read: it is longer than 32000 characters" in said

    def test_no_text(self, tmp_path: Path) -> None:
        assert "is no text (byte 0 is not UTF-8)" in self.read(tmp_path, b"\xff\xfe")

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(LaunchError, match="no such file"):
            read_launch(tmp_path / "x.sh")
        with pytest.raises(LaunchError, match="is a folder"):
            read_launch(tmp_path)

    def test_an_override_that_is_no_object(self) -> None:
        with pytest.raises(LaunchError, match="the model override of line 1 holds a list"):
            _ = one(f"{PYTHON} --json-model-override-args '[1]'").model_override
        assert one(PYTHON).model_override == {}


pieces = st.sampled_from(
    [
        "$A",
        "${B:-x}",
        "'",
        '"',
        "`",
        "\\",
        "\n",
        ";",
        "&&",
        "|",
        "(",
        ")",
        "{",
        "}",
        "#",
        " ",
        "<<E",
        "E",
        PYTHON,
        "--tp",
        "8",
        "=",
        "if",
        "fi",
        ">",
    ]
)


@given(st.lists(pieces | st.text(max_size=3), max_size=20).map("".join))
def test_no_script_makes_the_reader_fall_over(script: str) -> None:
    try:
        launches_in(script)
    except LaunchError as problem:
        one_clear_line(problem)


words = st.text(alphabet="abcXYZ019 _-./'\"$`\\*?{}[]()<>|&;#~!%\n", min_size=1, max_size=12)


@pytest.mark.skipif(which("bash") is None, reason="asks bash")
@given(st.lists(words, min_size=1, max_size=4))
def test_words_are_those_that_bash_makes(values: list[str]) -> None:
    from shlex import quote

    script = " ".join(quote(each) for each in values)
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {script}"], capture_output=True, text=True, check=True
    ).stdout
    told = shown.split("\0")[:-1]
    assert told == values
    flags = " ".join(f"--x{index}-path={quote(each)}" for index, each in enumerate(values))
    assert one(f"{PYTHON} {flags}").arguments == {f"x{index}_path": each for index, each in enumerate(values)}


def test_the_deployment_is_what_may_decide_how_a_batch_runs() -> None:
    launch = one(
        f"{PYTHON} --model-path m --tp 8 --speculative-algorithm EAGLE3 --disable-cuda-graph --host 0.0.0.0 --port 1 "
        "--trust-remote-code --log-level info --tokenizer-path t --cuda-graph-bs 1 2 4 --attention-backend fa3 "
        "--api-key k --mem-fraction-static 0.8 --json-model-override-args '{}' --speculative-eagle-topk 4"
    )
    assert launch.deployment == {
        "attention_backend": "fa3",
        "disable_cuda_graph": True,
        "speculative_eagle_topk": 4,
        "tp_size": 8,
    }


def test_what_is_left_open_leaves_out_addresses_and_models() -> None:
    launch = one(f"{PYTHON} --model-path $M --port $PORT --tp $TP $MORE")
    assert [(each.argument, each.text) for each in launch.left_open] == [("tp_size", "$TP"), ("", "$MORE")]
