"""One pair in one release: what is said of it, as a test can ask for it. Every answer is worked out once in a run."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from flowcheck.checks.capture_layers import RowEnd, layer_findings, row_ends
from flowcheck.checks.findings import Finding
from flowcheck.checks.pairs import pair_findings
from flowcheck.checks.rules import load_rules
from flowcheck.checks.widths import width_findings
from flowcheck.draft import Pairing, draft_from, pair, target_from
from flowcheck.flow import Scalar, Scenario
from flowcheck.flow.pair_facts import PairFacts
from flowcheck.flow.serving import serve
from flowcheck.source import cache_root, open_source
from tests.flow.models import target_config
from tests.releases.witnesses import WITNESSES

__all__ = ["IDS", "Answer", "Wired", "wired"]

IDS = "eagle_aux_hidden_state_layer_ids"
FUSION = "enable_flashinfer_allreduce_fusion"


@dataclass(frozen=True)
class Wired:
    """A pair to be served: a target (one of the witnesses, else a public file) and a draft that writes ``ids``.

    They stand in ``eagle_config``, and ``trained`` is declared. ``eagle`` and ``top`` are more keys of the draft, in
    ``eagle_config`` and beside it; ``settings`` the deployment, without all-reduce fusion unless ``fusion`` says so.
    """

    target: str
    ids: tuple[int, ...] | None
    trained: tuple[int, ...] | None
    eagle: tuple[tuple[str, object], ...] = ()
    top: tuple[tuple[str, object], ...] = ()
    settings: tuple[tuple[str, Scalar], ...] = ()
    fusion: bool = False

    @property
    def pairing(self) -> Pairing:
        target = WITNESSES.get(self.target) or target_config(self.target)
        text = target.get("text_config", target)
        eagle = {**({IDS: list(self.ids)} if self.ids is not None else {}), **dict(self.eagle)}
        draft: dict[str, Any] = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": text["hidden_size"],
            "num_hidden_layers": 1,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 8192,
            "rms_norm_eps": 1e-5,
            "hidden_act": "silu",
            "max_position_embeddings": 163840,
            "vocab_size": text["vocab_size"],
            "draft_vocab_size": 32000,
            **({"eagle_config": eagle} if eagle else {}),
            **{key: list(value) if isinstance(value, tuple) else value for key, value in self.top},
        }
        return pair(draft_from(draft, "draft"), target_from(target, "target"), declared=self.trained)


@dataclass(frozen=True)
class Answer:
    """What is said of a pair: of the tree's part in it (``findings``), of its own data (``own``), and how each row ends."""

    facts: PairFacts
    findings: tuple[Finding, ...]
    own: tuple[Finding, ...]
    ends: tuple[RowEnd, ...]

    @property
    def rules(self) -> set[str]:
        return {finding.rule for finding in self.findings}

    def at(self, rule: str) -> set[tuple[str, str]]:
        """Where a rule speaks: the file below the package's ``srt`` folder, and the symbol."""
        places = [finding.place for finding in self.findings if finding.rule == rule]
        return {(p.path.rpartition("/srt/")[2], p.symbol) if p is not None else ("", "") for p in places}

    @property
    def is_proved(self) -> bool:
        """Whether every row is, and nothing at all is said."""
        return bool(self.ends) and not self.findings and {end.verdict.value for end in self.ends} == {"proved"}

    def boundaries(self, path: str) -> set[tuple[int | None, ...]]:
        return {end.row.boundaries for end in self.ends if end.row.path.value == path}

    def said(self) -> str:
        rows = [
            f"{e.row.phase.value} {e.row.path.value} {e.row.batch}: {e.row.boundaries}, {e.verdict.value} {e.rules} {e.reason}"
            for e in self.ends
        ]
        found = [
            f"{f.rule} {f.verdict.value}: {f.message} ({f.place.path}:{f.place.span.line} {f.place.symbol})"
            if f.place is not None
            else f"{f.rule} {f.verdict.value}: {f.message}"
            for f in self.findings
        ]
        return "\n".join((*rows, *found))


@functools.cache
def wired(version: str, asked: Wired) -> Answer:
    """What this release makes of a pair on eight ranks."""
    pairing, rules = asked.pairing, load_rules()
    scenario = Scenario("EAGLE3", {FUSION: asked.fusion, **dict(asked.settings)})
    with open_source(f"sglang=={version}", cache_dir=cache_root()) as tree:
        facts = serve(tree, scenario, pairing)
    findings = (*layer_findings(facts, pairing, rules), *width_findings(facts, pairing, rules))
    return Answer(facts, findings, pair_findings(pairing, rules), row_ends(facts, pairing, findings))
