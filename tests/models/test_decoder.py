"""The decoder against transformers, against itself through the cache, and through fx, export and compile."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
import torch

from labkit.models import Decoder, DecoderConfig, RopeScaling, build, generate, load_safetensors, phase_cost, preset, preset_names
from labkit.models.checkpoint import CheckpointError

SMALL = dict(
    vocab_size=97, hidden_size=48, intermediate_size=80, num_layers=3, num_heads=6, num_kv_heads=2, head_dim=8, max_positions=64
)
CONFIGS = {
    "llama": DecoderConfig(**SMALL, norm_eps=1e-5),
    "llama-scaled": DecoderConfig(**SMALL, rope_theta=500000.0, rope_scaling=RopeScaling(8.0, 1.0, 4.0, 16), tied_embeddings=True),
    "qwen2": DecoderConfig(**SMALL, family="qwen2", norm_eps=1e-6, qkv_bias=True, tied_embeddings=True, rope_theta=1e6),
    "granite": DecoderConfig(
        **SMALL,
        family="granite",
        embedding_multiplier=12.0,
        attention_multiplier=0.11,
        residual_multiplier=0.22,
        logits_scaling=7.0,
        tied_embeddings=True,
    ),
}


def reference(config: DecoderConfig):
    """The same model of transformers, with random weights that are not tiny, so that a wrong scale shows."""
    transformers = pytest.importorskip("transformers")
    common = dict(
        vocab_size=config.vocab_size, hidden_size=config.hidden_size, intermediate_size=config.intermediate_size, num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads, num_key_value_heads=config.num_kv_heads, rms_norm_eps=config.norm_eps, head_dim=config.head_dim,
        max_position_embeddings=config.max_positions, tie_word_embeddings=config.tied_embeddings, attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
    )  # fmt: skip
    if config.rope_scaling:
        s = config.rope_scaling
        common["rope_parameters"] = {
            "rope_type": "llama3", "rope_theta": config.rope_theta, "factor": s.factor, "low_freq_factor": s.low_freq_factor,
            "high_freq_factor": s.high_freq_factor, "original_max_position_embeddings": s.original_max_positions,
        }  # fmt: skip
    if config.family == "granite":
        common |= {
            name: getattr(config, name)
            for name in ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling")
        }
    kind = {"llama": "Llama", "qwen2": "Qwen2", "granite": "Granite"}[config.family]
    torch.manual_seed(3)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**common)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 if parameter.dim() > 1 else 1 + 0.2 * torch.randn_like(parameter))
    return model


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-5 * float(b.abs().max().clamp(min=1)), rtol=1e-5)


@pytest.fixture(params=list(CONFIGS))
def pair(request, tmp_path):
    """(our model with the reference's weights, read from a file that the reference wrote; the reference)."""
    theirs = reference(CONFIGS[request.param])
    theirs.save_pretrained(tmp_path, safe_serialization=True)
    ours = load_safetensors(Decoder(CONFIGS[request.param]).eval(), tmp_path)
    return ours, theirs


@torch.no_grad()
def test_prefill_and_cached_decode_equal_transformers(pair):
    ours, theirs = pair
    tokens = torch.randint(0, 97, (2, 23), generator=torch.Generator().manual_seed(0))
    expected = theirs(tokens).logits
    close(ours(tokens), expected)
    cache = ours.new_cache(2, 30)
    close(ours(tokens[:, :15], torch.arange(15), cache), expected[:, :15])
    for t in range(15, 23):
        close(ours(tokens[:, t : t + 1], torch.tensor([t]), cache), expected[:, t : t + 1])


@torch.no_grad()
def test_greedy_generation_equals_transformers(pair):
    ours, theirs = pair
    prompt = torch.randint(0, 97, (1, 7), generator=torch.Generator().manual_seed(1))
    expected = theirs.generate(prompt, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert generate(ours, prompt, 12).tolist() == expected.tolist()


@pytest.mark.parametrize("name", preset_names())
def test_parameter_counts_are_the_published_ones(name):
    config = preset(name)
    model = build(name)
    assert all(p.is_meta for p in model.parameters())
    assert sum(p.numel() for p in model.parameters()) == config.count_parameters() == config.parameters
    assert config.source


def test_a_preset_runs_on_the_meta_device_without_memory():
    with torch.device("meta"):
        assert build("llama-3.1-8b")(torch.zeros(1, 512, dtype=torch.int64)).shape == (1, 512, 128256)


def test_one_block_is_traceable_by_fx_and_computes_the_same():
    model = Decoder(CONFIGS["llama"]).eval()
    traced = torch.fx.symbolic_trace(model.model.layers[0])
    x = torch.randn(2, 5, 48)
    cos, sin = model.rotary(torch.arange(5))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    assert torch.equal(traced(x, cos, sin, mask), model.model.layers[0](x, cos, sin, mask))


@torch.no_grad()
def test_prefill_and_decode_export():
    model = Decoder(CONFIGS["llama"]).eval()
    tokens = torch.randint(0, 97, (1, 9))
    cache = model.new_cache(1, 16)
    prefill = torch.export.export(model, (tokens, torch.arange(9), cache)).module()
    mine, theirs = model.new_cache(1, 16), model.new_cache(1, 16)
    close(prefill(tokens, torch.arange(9), mine), model(tokens, torch.arange(9), theirs))
    decode = torch.export.export(model, (tokens[:, :1], torch.tensor([9]), cache)).module()
    close(decode(tokens[:, :1], torch.tensor([9]), mine), model(tokens[:, :1], torch.tensor([9]), theirs))
    close(mine[2][0], theirs[2][0])


@torch.no_grad()
def test_compiled_decode_breaks_no_graph_and_never_recompiles():
    torch._dynamo.reset()
    model = Decoder(CONFIGS["qwen2"]).eval()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
    prompt = torch.randint(0, 97, (1, 6), generator=torch.Generator().manual_seed(2))
    assert generate(model, prompt, 14, step=compiled).tolist() == generate(model, prompt, 14).tolist()
    assert len(graphs) == 2  # prefill and decode
    torch._dynamo.reset()


def test_sequences_that_have_stopped_stay_stopped():
    model = Decoder(CONFIGS["llama"]).eval()
    prompt = torch.randint(0, 97, (3, 4), generator=torch.Generator().manual_seed(5))
    free = generate(model, prompt, 10)
    stop = int(free[0, 6])
    stopped = generate(model, prompt, 10, stop=stop)
    row = stopped[0, 4:].tolist()
    assert row[row.index(stop) :] == [stop] * (len(row) - row.index(stop))


@pytest.mark.parametrize("prompt", [torch.zeros(1, 0, dtype=torch.int64), torch.zeros(4, dtype=torch.int64), torch.zeros(1, 4)])
def test_a_prompt_that_is_none_is_named(prompt):
    with pytest.raises(ValueError, match="prompt: got shape"):
        generate(Decoder(CONFIGS["llama"]), prompt, 1)


def test_more_positions_than_the_model_has():
    with pytest.raises(ValueError, match="positions = 70: expected 1 to 64"):
        generate(Decoder(CONFIGS["llama"]), torch.zeros(1, 60, dtype=torch.int64), 10)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(num_kv_heads=4), "no multiple"),
        (dict(head_dim=7), "has to be even"),
        (dict(num_layers=0), "num_layers = 0"),
        (dict(family="bert"), "family = 'bert'"),
    ],
)
def test_dimensions_that_make_no_model(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIGS["llama"], **change)


def test_an_unknown_preset_lists_the_presets():
    with pytest.raises(ValueError, match="no preset 'gpt-5'; there are qwen2.5-0.5b"):
        preset("gpt-5")


# -- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of our own model, in one file: (folder, state)."""
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = Decoder(CONFIGS["llama"])
    state = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    save_file(state, tmp_path / "model.safetensors")
    return tmp_path, state


def fresh():
    return Decoder(CONFIGS["llama"])


def test_shards_load_like_one_file(saved, tmp_path):
    from safetensors.torch import save_file

    folder, state = saved
    target = tmp_path / "sharded"
    target.mkdir()
    names = list(state)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: state[name] for name in part}, target / file)
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))
    for loaded in (load_safetensors(fresh(), target), load_safetensors(fresh(), folder)):
        assert all(torch.equal(p, state[name]) for name, p in loaded.named_parameters())


@pytest.mark.parametrize(
    "break_it, message",
    [
        (lambda s: s.pop("model.layers.1.mlp.up_proj.weight"), "model.layers.1.mlp.up_proj.weight is missing"),
        (lambda s: s.update({"model.layers.9.extra": torch.zeros(1)}), "model.layers.9.extra is extra"),
        (lambda s: s.update({"lm_head.weight": torch.zeros(5, 48)}), r"lm_head.weight has shape \[5, 48\], expected \[97, 48\]"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named_and_nothing_is_changed(saved, break_it, message):
    from safetensors.torch import save_file

    folder, state = saved
    state = dict(state)
    break_it(state)
    save_file(state, folder / "model.safetensors")
    model = fresh()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(CheckpointError, match=message):
        load_safetensors(model, folder)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_damaged_and_hostile_checkpoints_are_named(saved):
    folder, _ = saved
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:100])
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        load_safetensors(fresh(), folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
    with pytest.raises(CheckpointError, match="outside its folder"):
        load_safetensors(fresh(), folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    with pytest.raises(CheckpointError, match="shards that are not there: gone.safetensors"):
        load_safetensors(fresh(), folder)
    shutil.rmtree(folder)
    with pytest.raises(CheckpointError, match="no such file or folder"):
        load_safetensors(fresh(), folder)


def test_the_meta_device_has_nothing_to_load_into(saved):
    with pytest.raises(CheckpointError, match="meta device"):
        load_safetensors(build("qwen2.5-0.5b"), saved[0])


def _counted(model, *arguments) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*arguments)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", ["tiny", "qwen2.5-0.5b", "granite-3.3-8b"])
def test_flops_of_a_decode_step_are_those_of_torchs_counter(name):
    model = build(name)
    cache, position = model.new_cache(3, 200), torch.tensor([199], device="meta")
    tokens = torch.zeros(3, 1, dtype=torch.int64, device="meta")
    assert phase_cost(model.config, 3, 1, 199, 2)["flops"] == _counted(model, tokens, position, cache)


def test_flops_of_prefill_leave_out_what_the_mask_hides_and_nothing_else():
    model = build("qwen2.5-0.5b")
    c = model.config
    hidden_pairs = 64 * 64 - 64 * 65 // 2
    counted = _counted(model, torch.zeros(2, 64, dtype=torch.int64, device="meta"))
    assert counted - phase_cost(c, 2, 64, 0, 4)["flops"] == 4 * 2 * c.num_layers * c.num_heads * c.head_dim * hidden_pairs


@pytest.mark.parametrize("name", ["tiny", "llama-3.1-8b"])
def test_bytes_of_a_decode_step_are_the_matrices_the_looked_up_rows_and_the_cache(name):
    model = build(name)
    matrices = sum(p.numel() for n, p in model.named_parameters() if p.dim() == 2 and not n.endswith("embed_tokens.weight"))
    head = 0 if not model.config.tied_embeddings else model.model.embed_tokens.weight.numel()
    cache = model.config.kv_cache_elements(4, 101)
    assert phase_cost(model.config, 4, 1, 100, 2)["bytes"] == 2 * (matrices + head + 4 * model.config.hidden_size + cache)


@pytest.mark.parametrize("arguments", [(0, 1, 0, 2), (1, 0, 0, 2), (1, 1, -1, 2), (1, 1, 0, 0)])
def test_counts_that_make_no_pass_are_refused(arguments):
    with pytest.raises(ValueError, match="expected"):
        phase_cost(preset("tiny"), *arguments)
