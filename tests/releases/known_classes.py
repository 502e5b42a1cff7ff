"""Known defects of released target classes that no configuration is needed for: where they stand, and from when to when.

The facts were found by reading the releases; the ids are those of the project's list of cases.
"""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

__all__ = ["KNOWN", "Known"]


@dataclass(frozen=True)
class Known:
    """A defect of one class.

    Attributes:
        case, kind: its id, and the kind of defect.
        rule: what speaks of it.
        cls, file: the class, and the file that the finding names.
        first, last: the releases that have it, both inclusive; "" for the last: the newest release still has it.
        missed: why it is not found, "" where it is.
    """

    case: str
    kind: str
    rule: str
    cls: str
    file: str
    first: str
    last: str = ""
    missed: str = ""

    def is_in(self, version: str) -> bool:
        """Whether a release has it."""
        return Version(self.first) <= Version(version) and (not self.last or Version(version) <= Version(self.last))


SUMS, ROWS, END, WRAPPER = "unreduced-partial-sum", "rows-not-gathered", "final-boundary", "wrapper-delegation"
VALUE, SKIPS, FLAGS, DROPPED = "capture-value", "path-skips-capture", "flag-vs-list", "aux-dropped"
GLM, DEEPSEEK, QWEN_VL = "Glm4MoeForCausalLM", "DeepseekV3ForCausalLM", "Qwen3VLForConditionalGeneration"

KNOWN = (
    Known("E3-001", END, "HS202", "GptOssForCausalLM", "gpt_oss.py", "0.5.1", "0.5.16"),
    Known("E3-003", FLAGS, "HS207", "Qwen3_5ForConditionalGeneration", "qwen3_vl.py", "0.5.11", "0.5.20"),
    Known("E3-008", ROWS, "HS210", DEEPSEEK, "deepseek_v2.py", "0.5.6", "0.5.6"),
    Known("E3-010", SUMS, "HS209", DEEPSEEK, "deepseek_v2.py", "0.5.6", "0.5.13"),
    Known("E3-012", SUMS, "HS209", GLM, "glm4_moe.py", "0.5.6", "0.5.20"),
    Known("E3-015", ROWS, "HS210", "Qwen3MoeForCausalLM", "qwen2_moe.py", "0.4.9.post3", "0.5.4"),
    Known(
        "E3-017", SKIPS, "HS211", "Qwen3MoeForCausalLM", "qwen2_moe.py", "0.4.9.post3",
        missed="two-batch overlap is not asked",
    ),
    Known("E3-040", WRAPPER, "HS206", QWEN_VL, "qwen3_vl.py", "0.5.4", "0.5.10"),
    Known("E3-040", WRAPPER, "HS206", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe.py", "0.5.4", "0.5.10"),
    Known("E3-041", WRAPPER, "HS206", "KimiK25ForConditionalGeneration", "kimi_k25.py", "0.5.9", "0.5.9"),
    Known("E3-042", WRAPPER, "HS206", "Glm4vForConditionalGeneration", "glm4v.py", "0.5.6"),
    Known(
        "E3-042", DROPPED, "HS212", "Glm4vForConditionalGeneration", "glm4v.py", "0.5.7",
        missed="what nothing can tell is not run",
    ),
    Known("E3-045", VALUE, "HS208", "Gemma3ForCausalLM", "gemma3_causal.py", "0.5.17"),
    Known("E3-046", VALUE, "HS208", "Gemma4ForCausalLM", "gemma4_causal.py", "0.5.12", "0.5.20"),
    Known("E3-048", WRAPPER, "HS206", "Qwen2MoeForCausalLM", "qwen2_moe.py", "0.5.2"),
    Known("E3-049", END, "HS202", "Qwen3MoeForCausalLM", "qwen2_moe.py", "0.5.6"),
    Known("E3-055", END, "HS202", "LlamaForCausalLM", "llama.py", "0.4.9.post3"),
    Known("E3-055", END, "HS202", "MiniMaxM2ForCausalLM", "minimax_m2.py", "0.5.6"),
    Known("E3-062", ROWS, "HS210", GLM, "glm4_moe.py", "0.5.6"),
)  # fmt: skip
