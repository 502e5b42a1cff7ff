"""What ``torch.nn.Module`` gives every module of a model, and PyTorch's own layers: the names that they have by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp.values import NONE, TRUE, Known, Union, Unknown, alternatives

if TYPE_CHECKING:
    from collections.abc import Collection

    from flowcheck.interp.heap import Obj
    from flowcheck.interp.values import ClassV

__all__ = ["LAYERS", "LINEAR", "MODULE", "MODULE_NAMES", "has_no_other_names", "sized"]

MODULE = "torch.nn.Module"

_NAMES = """
    T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches
    eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict
    modules mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook
    register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
    set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu zero_grad
"""
MODULE_NAMES = frozenset(_NAMES.split())
"""The public names of ``torch.nn.Module``; those with an underscore are its own business."""

NAMED_BASES = frozenset({MODULE, "object", "abc.ABC", "typing.Generic", "typing.Protocol"})
TRANSFORMERS = "transformers."
"""Its base classes have hundreds of names, other ones in each release; what a server calls its own methods is not among them."""


LINEAR = "torch.nn.Linear"
LAYERS = {
    "torch.nn.Embedding": ("num_embeddings", "embedding_dim", "padding_idx"),
    "torch.nn.Linear": ("in_features", "out_features", "bias"),
}
"""PyTorch's own layers that classes of a tree derive from: what their constructors take, the second says how wide they are."""


def sized(obj: Obj) -> None:
    """Gives a linear layer of PyTorch's own the attributes that it has: its sizes, and None for a bias that it lacks."""
    given = {**dict(zip(LAYERS[LINEAR], obj.items or (), strict=False)), **obj.attrs}
    asked = given.pop("bias", TRUE)
    has_one = (
        {x.value for x in alternatives(asked) if isinstance(x, Known)} if isinstance(asked, (Known, Union)) else set()
    )
    given["bias"] = NONE if has_one == {False} else Unknown("a parameter", not_none=has_one == {True})
    obj.attrs = given


def has_no_other_names(c: ClassV, name: str, own: Collection[str] = ()) -> bool:
    """Whether an instance certainly lacks ``name`` where neither the tree's classes nor what they store gives it: all that
    lies outside is a module of torch, which has other names, or (for the ``own`` names of the tree) of transformers."""
    if name.startswith("_") or name in MODULE_NAMES or any(b.metaclass is not None for b in c.mro):
        return False
    outside = [e for b in c.mro for e in b.external]
    if name in own:
        outside = [MODULE if e.startswith(TRANSFORMERS) else e for e in outside]
    return MODULE in outside and NAMED_BASES.issuperset(outside) and not any(_is_vague(b) for b in c.mro)


def _is_vague(c: ClassV) -> bool:
    """Whether a base of this very class could not be made out."""
    return len([a for a in c.node.bases if a.keyword is None]) != len(c.bases) + len(c.external)
