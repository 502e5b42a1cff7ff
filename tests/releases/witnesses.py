"""Complete configurations of targets, one for each kind of layer loop, as small as their layers allow.

Eight layers: dense ones, ones with experts, and what every layer repeats. They say every key that the code of some release
reads without a default.
"""

from __future__ import annotations

from typing import Any

__all__ = ["WITNESSES"]

_ROPE: dict[str, Any] = {
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "max_position_embeddings": 163840,
}
_DENSE: dict[str, Any] = {
    **_ROPE,
    "vocab_size": 128256,
    "hidden_size": 4096,
    "num_hidden_layers": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 14336,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
}
_LATENT: dict[str, Any] = {
    **_ROPE,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "vocab_size": 129280,
    "hidden_size": 7168,
    "num_hidden_layers": 8,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "n_group": 8,
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "ep_size": 1,
}

WITNESSES: dict[str, dict[str, Any]] = {
    "llama": {**_DENSE, "architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "qwen3": {**_DENSE, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False},
    "qwen3-moe": {
        **_DENSE,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "attention_bias": False,
    },
    "deepseek-v3": _LATENT,
    "kimi-k2.5": {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "text_config": {**_LATENT, "model_type": "kimi_k2", "num_attention_heads": 64, "num_key_value_heads": 64},
        "vision_config": {"vt_num_hidden_layers": 27, "mm_hidden_size": 1152, "text_hidden_size": 7168},
    },
    "gpt-oss": {
        **_DENSE,
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_attention_heads": 64,
        "head_dim": 64,
        "intermediate_size": 2880,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 4,
        "attention_bias": True,
        "swiglu_limit": 7.0,
        "hidden_activation": "silu",
    },
    "glm-4-moe": {
        **{k: v for k, v in _LATENT.items() if k != "q_lora_rank"},
        "architectures": ["Glm4MoeForCausalLM"],
        "model_type": "glm4_moe",
        "hidden_size": 5120,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "n_routed_experts": 128,
        "n_group": 1,
        "topk_group": 1,
        "use_qk_norm": True,
        "attention_bias": True,
        "partial_rotary_factor": 0.5,
    },
    "gemma3": {
        **{k: v for k, v in _DENSE.items() if k != "hidden_act"},
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_local_base_freq": 10000.0,
        "query_pre_attn_scalar": 168,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "use_bidirectional_attention": False,
        "layer_types": [("full_attention" if (i + 1) % 6 == 0 else "sliding_attention") for i in range(8)],
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    },
}
"""By a short name of the target."""
