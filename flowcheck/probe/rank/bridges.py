"""Bridges over eras of the tree: what is done differently by release is found out by looking, never by a number.

Each bridge says in words what it found, for :attr:`flowcheck.probe.protocol.RankResult.bridges`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import inspect
import os
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from flowcheck.probe.protocol import Job
from flowcheck.probe.rank.tree import Tree, Unbridged, call, fields_of, filled, replaced

__all__ = ["Shape", "config_of", "dtype_name", "join", "positions_of_a_gpu", "publish", "shape_of", "stand_in_config"]


@dataclass(frozen=True)
class Shape:
    """What a rank asks of a configuration.

    Attributes:
        text: The part that describes the language model.
        layers: Number of its decoder layers.
        width: Of its residual stream.
        vocabulary: Number of tokens.
    """

    text: Any
    layers: int
    width: int
    vocabulary: int


def publish(tree: Tree, job: Job, rank: int) -> tuple[Any, str, str]:
    """Makes the tree's server arguments for the target's folder, and makes them known to the tree's modules.

    Attention backends are tried in turn: a tree may refuse some for a model. Where the class refuses a CPU or a combination
    altogether, its fields are filled without its own checks.

    Returns:
        The arguments, how they were made, and how they were published.

    Raises:
        Unbridged: none were taken.
    """
    table = tree.names["arguments"]
    cls = tree.need(table["module"], table["cls"])
    on_gpu = job.backend == "nccl"
    refused: list[str] = []
    given: dict[str, Any] = {}
    for attention in table["attention"]["gpu" if on_gpu else "cpu"]:
        values = {
            "target": job.target,
            "device": "cuda" if on_gpu else "cpu",
            "ranks": job.ranks,
            "dtype": dtype_name(job),
            "attention": attention,
        }
        known = fields_of(cls)
        wanted = {**filled(table["given"], values), **job.settings}
        if job.through == "model-runner":
            wanted |= filled(tree.names["runner"]["arguments"], {"listens": f"{job.address}:{job.port}"})
        if records(job):
            most = max(phase.requests for phase in job.phases if phase.graph)
            wanted |= filled(tree.names["runner"]["records"], {"requests": most})
        given = {key: value for key, value in wanted.items() if key in known}
        try:
            made = cls(**given)
            _speculating(tree, job, made)
            return made, f"{table['cls']}(...), {attention}", _publish(tree, made, rank)
        except Unbridged:
            raise
        except Exception as error:  # noqa: BLE001 - whatever its checks raise
            refused.append(f"{type(error).__name__}: {' '.join(str(error).split())[:160]}")
    made = _bare(cls, given)
    if made is None:
        raise Unbridged(f"{table['cls']} refuses its arguments: {'; '.join(refused)}")
    _speculating(tree, job, made)
    return made, f"{table['cls']} without its own checks ({'; '.join(refused)})", _publish(tree, made, rank)


def records(job: Job) -> bool:
    """Whether the tree's own runner is to record graphs."""
    graphs = any(phase.graph for phase in job.phases)
    return job.through == "model-runner" and job.backend == "nccl" and job.role == "rank" and graphs


def _speculating(tree: Tree, job: Job, arguments: Any) -> None:
    """Lets the tree's own runner read the draft. Not for the reference, which has only to compute."""
    if job.through != "model-runner" or job.role == "reference" or job.draft is None:
        return
    known = fields_of(type(arguments))
    values = {"draft": job.draft, "algorithm": job.algorithm}
    for name, value in filled(tree.names["runner"]["speculates"], values).items():
        if name in known:
            object.__setattr__(arguments, name, value)


def _bare(cls: Any, given: dict[str, Any]) -> Any:
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        return None
    made: Any = object.__new__(cls)
    for each in dataclasses.fields(cls):
        value = each.default
        if value is dataclasses.MISSING:
            value = each.default_factory() if each.default_factory is not dataclasses.MISSING else None
        object.__setattr__(made, each.name, given.get(each.name, value))
    return made


def local_rank(rank: int) -> int:
    """The number of a rank on its machine, which is that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", rank))


def dtype_name(job: Job) -> str:
    """The type that the target is built in: full precision where the tree can compute in it, so not with a GPU's kernels."""
    return "float32" if job.backend == "gloo" else "bfloat16"


def _publish(tree: Tree, arguments: Any, rank: int) -> str:
    table = tree.names["publish"]
    if (function := tree.find(table["context_module"], table["context"])) is not None:
        given: dict[str, Any] = dict(table["context_given"])
        if (ranks := tree.find(table["context_module"], table["ranks"])) is not None:
            known = fields_of(ranks)
            numbers = {
                **dict.fromkeys(table["rank_fields"], rank),
                **dict.fromkeys(table["gpu_fields"], local_rank(rank)),
            }
            given[table["context_ranks"]] = ranks(**{name: each for name, each in numbers.items() if name in known})
        _with(function, arguments, given)
        return f"{table['context_module']}.{table['context']}"
    for name in table["functions"]:
        if (function := tree.find(table["functions_module"], name)) is not None:
            function(arguments)
            return f"{table['functions_module']}.{name}"
    for module in table["dict_modules"]:
        if isinstance(found := tree.find(module, table["dict"]), dict):
            found.update(vars(arguments))
            return f"{module}.{table['dict']}"
    raise Unbridged("no way to publish server arguments is known")


def _with(function: Any, first: Any, given: dict[str, Any]) -> Any:
    """Calls with one argument, and those of the others that it has parameters for."""
    known = inspect.signature(function).parameters
    return function(first, **{name: value for name, value in given.items() if name in known})


def config_of(tree: Tree, job: Job, arguments: Any, folder: str, *, draft: bool = False) -> tuple[Any, Any, str]:
    """The configuration of a model's folder: the tree's own object, the one that models take, and how they were made.

    The first is None where the tree's own class refuses to be made here.
    """
    table = tree.names["config"]
    failed: list[str] = []
    cls = tree.find(table["module"], table["cls"])
    if cls is not None and hasattr(cls, table["from_arguments"]):
        extra = {**filled(table["draft_path"], {"draft": folder}), **table["draft"]} if draft else {}
        try:
            made = getattr(cls, table["from_arguments"])(arguments, **extra)
            return made, _completed(getattr(made, table["whole"]), table), f"{table['cls']}.{table['from_arguments']}"
        except Exception as error:  # noqa: BLE001 - whatever its checks raise
            failed.append(f"{table['cls']}: {type(error).__name__}: {str(error)[:160]}")
    try:
        where, reader = tree.first(table["readers"])
        whole = call(reader, {"model": folder, "trust_remote_code": False})
        return None, _completed(whole, table), f"{where} ({'; '.join(failed)})"
    except Exception as error:  # noqa: BLE001
        failed.append(f"reader: {type(error).__name__}: {str(error)[:160]}")
    raise Unbridged(f"no configuration can be made of {Path(folder).name}: {'; '.join(failed)}")


def _completed(config: Any, table: dict[str, Any]) -> Any:
    for name, value in table["stored"].items():
        if not hasattr(config, name):
            with contextlib.suppress(Exception):
                setattr(config, name, value)
    return config


def shape_of(tree: Tree, config: Any, own: Any = None) -> Shape:
    """Number of layers, width and vocabulary of a configuration's language model.

    Args:
        tree: The scanned tree.
        config: The configuration that models take.
        own: The tree's own object, if there is one: it knows which part describes the language model.

    Raises:
        Unbridged: it says none.
    """
    table = tree.names["config"]
    text: Any = getattr(own, table["whole_text"], None)
    for name in table["text"] if text is None else ():
        if (inner := getattr(config, name, None)) is not None:
            text = types.SimpleNamespace(**inner) if isinstance(inner, dict) else inner
            break
    text = config if text is None else text

    def number(names: list[str]) -> int:
        for name in names:
            if isinstance(found := getattr(text, name, None), int):
                return found
        raise Unbridged(f"the configuration has none of {', '.join(names)}")

    return Shape(text, number(table["layers"]), number(table["width"]), number(table["vocabulary"]))


def stand_in_config(tree: Tree, config: Any, shape: Shape, dtype: Any) -> Any:
    """What serves for the tree's own configuration object where that could not be made."""
    values = {
        "config": config,
        "text": shape.text,
        "width": shape.width,
        "layers": shape.layers,
        "vocabulary": shape.vocabulary,
        "dtype": dtype,
    }
    return types.SimpleNamespace(**filled(tree.names["config"]["stand_in"], values))


def join(tree: Tree, job: Job, rank: int, arguments: Any, model_config: Any) -> list[str]:
    """Brings this rank into the groups of the tree, through the tree's own functions.

    Returns:
        The steps that this tree has.
    """
    table = tree.names["parallel"]
    if job.backend == "fake":
        _fake_groups(rank, job.ranks)
    under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    values = {
        "ranks": job.ranks,
        "rank": rank,
        "local_rank": local_rank(rank),
        "method": "env://" if under_torchrun else f"tcp://{job.address}:{job.port}",
        "backend": job.backend,
        "timeout": int(job.limits.collective_seconds),
        "arguments": arguments,
        "config": model_config,
    }
    given = filled(table["given"], values)
    done = []
    for name in table["off"]:
        if (function := tree.find(table["module"], name)) is not None:
            function(False)
    if (start := tree.find(table["module"], table["start"])) is not None:
        call(start, given)
        done.append(table["start"])
    elif not torch.distributed.is_initialized():
        patience = datetime.timedelta(seconds=job.limits.collective_seconds)
        torch.distributed.init_process_group(
            job.backend, init_method=values["method"], rank=rank, world_size=job.ranks, timeout=patience
        )
    call(tree.need(table["module"], table["groups"]), given)
    done.append(table["groups"])
    for module, name in table["steps"]:
        function = tree.find(module, name)
        if function is None or name in done:
            continue
        positional = len(_required(function) - set(given))
        if positional == 0:
            call(function, given)
        else:
            function(arguments)
        done.append(name)
    return done


def positions_of_a_gpu(tree: Tree) -> None:
    """Where the tree asks for positional embeddings by device, it gets those of a GPU: for a CPU it knows fewer."""
    table = tree.names["rotary"]
    module, name, parameter = table["by_device"]
    by_device, plain = tree.find(module, name), tree.find(*table["plain"])
    if by_device is None or plain is None:
        return
    signature = inspect.signature(by_device)

    def made(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        return call(plain, {key: value for key, value in given.items() if key != parameter})

    replaced(tree.package, name, by_device, made)


def _required(function: Any) -> set[str]:
    return {
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.default is inspect.Parameter.empty
        and each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }


def _fake_groups(rank: int, ranks: int) -> None:
    """PyTorch's group that communicates with nobody, and every later group likewise."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    real = dist.new_group

    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        return real(ranks, backend="fake")

    dist.new_group = new_group
    torch.distributed.distributed_c10d.new_group = new_group
    dist.barrier = lambda *args, **kwargs: None
