"""Capture the attention of small random models of every architecture of `transformers`, and compare it with the models' own.

    python -m tools.capture_survey [--part 0/4] [--only bert,gpt2] --out rows.jsonl

Each row says for one architecture and one attention implementation what `capture` found: `exact` (equal to the weights that
the model returns with `output_attentions=True`), `listed` (a part was not recognised and is named), `refused` (nothing was
recognised, and the error says so), `joined` (one softmax over source and target, whose parts the model returns; records refuse
it), `own is less` (the model returns the mean over heads, or leaves out its own first tokens), `no own` (the model returns no
weights to compare with), or `WRONG`. It also says whether the results of the model are the same, bit by bit, inside and outside
`capture`.
"""

import argparse
import contextlib
import copy
import inspect
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.errors import RequestError

BATCH, LENGTH, TARGET, IMAGE, PATCH = 2, 7, 5, 32, 8
_SIZES = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embed_dim": 32, "embedding_size": 32, "emb_dim": 32,
    "projection_dim": 32, "hidden_dim": 32, "word_embed_proj_dim": 32, "n_embed": 32, "model_dim": 32, "width": 32,
    "encoder_hidden_size": 32, "decoder_hidden_size": 32, "d_embed": 32, "out_hidden_size": 32, "codebook_dim": 32,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "num_kv_heads": 2, "head_dim": 8, "d_kv": 8, "kv_channels": 8,
    "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4, "attention_head_dim": 8, "attention_head_size": 8,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "depth": 2,
    "num_decoder_layers": 2, "num_encoder_layers": 2, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2,
    "intermediate_size": 48, "d_ff": 48, "ffn_dim": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "n_inner": 48,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "mlp_dim": 48, "ffn_hidden_size": 48,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_num_experts": 4,
    "n_group": 1, "topk_group": 1, "moe_topk": 2, "first_k_dense_replace": 1, "moe_k": 2, "num_experts_per_token": 2,
    "vocab_size": 120, "image_size": IMAGE, "patch_size": PATCH, "max_position_embeddings": 64, "n_positions": 64,
    "max_source_positions": 64, "max_target_positions": 64, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8, "v_head_dim": 8, "vocab_size_per_layer_input": 120, "hidden_size_per_layer_input": 16,
    "num_nextn_predict_layers": 0, "n_ctx": 64, "attention_window": 4, "max_encoder_position_embeddings": 64,
    "max_decoder_position_embeddings": 64,
}  # fmt: skip


def shrink(config: Any, level: int) -> Any:
    """Make a configuration small; a higher `level` leaves more of it alone."""
    for value in list(vars(config).values()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            shrink(value, level)
        elif isinstance(value, list) and value and all(hasattr(each, "model_type") for each in value):
            for each in value:
                shrink(each, level)
    layers = next(
        (name for name in ("num_hidden_layers", "n_layer", "num_layers") if isinstance(vars(config).get(name), int)), ""
    )
    for name, size in _SIZES.items():
        wanted = level == 0 or name not in ("image_size", "patch_size", "head_dim")
        if type(vars(config).get(name)) is int and wanted and (level < 2 or "layer" in name or "vocab" in name):
            with contextlib.suppress(Exception):
                setattr(config, name, size)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        if type(getattr(config, name, None)) is int and getattr(config, name) >= 100:
            setattr(config, name, {"pad_token_id": 0, "bos_token_id": 1}.get(name, 2))
    types = vars(config).get("layer_types")
    if isinstance(types, list) and layers:
        kinds = list(dict.fromkeys(types))
        wanted = max(2, len(kinds))
        config.layer_types = (kinds + kinds)[:wanted] if len(kinds) > 1 else types[:wanted]
        with contextlib.suppress(Exception):
            setattr(config, layers, wanted)
    for name in ("mlp_layer_types", "mlp_layers_types"):
        if isinstance(vars(config).get(name), list):
            setattr(config, name, vars(config)[name][-getattr(config, layers or "num_hidden_layers", 2) :])
    rope = vars(config).get("rope_parameters") or vars(config).get("rope_scaling")
    if isinstance(rope, dict) and isinstance(rope.get("mrope_section"), list) and level == 0:
        rope["mrope_section"] = [2, 1, 1]
    return config


def build(name: str, config_class: Any, model_class: Any, kind: str) -> nn.Module:
    """Build a small random model; try ways to make it small until one works."""
    last: Exception = RuntimeError("no way to make it small")
    for level in range(3):
        try:
            config = shrink(config_class(), level)
            if kind:
                config._attn_implementation = kind
            with torch.device("meta"):
                size = sum(
                    each.numel()
                    for each in model_class._from_config(copy.deepcopy(config), attn_implementation=kind).parameters()
                )
            if size > 60_000_000:
                raise RuntimeError(f"{size:,} parameters")
            torch.manual_seed(0)
            return model_class._from_config(config, attn_implementation=kind).eval()
        except Exception as error:  # another way may work
            last = error
    raise last


def first(config: Any, *names: str) -> Any:
    """Return the first of these settings that a configuration or one of its parts has."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    for part in vars(config).values():
        if hasattr(part, "model_type") and (value := first(part, *names)) is not None:
            return value
    return None


def inputs_of(model: nn.Module, *, level: int) -> list[dict[str, Tensor]]:
    """Return inputs to try, the likely ones first."""
    config, accepted = model.config, inspect.signature(model.forward).parameters
    draw = torch.Generator().manual_seed(0)
    size = first(config, "image_size") or IMAGE
    size = size if isinstance(size, list | tuple) else (size, size)
    frames = first(config, "num_frames") or 2
    ids = torch.randint(3, 90, (BATCH, LENGTH), generator=draw)
    made: dict[str, Tensor] = {
        "input_ids": ids, "attention_mask": torch.ones_like(ids),
        "decoder_input_ids": torch.randint(3, 90, (BATCH, TARGET), generator=draw),
    }  # fmt: skip
    channels = first(config, "num_channels", "in_channels", "in_chans") or 3
    channels = channels if isinstance(channels, int) else 3
    pixels = torch.randn(BATCH, channels, *size, generator=draw)
    bins = first(config, "num_mel_bins", "input_feat_per_channel", "feature_size", "input_channels") or 80
    context = first(config, "max_source_positions") or 32
    text = {name: made[name] for name in ("input_ids", "attention_mask", "decoder_input_ids") if name in accepted}
    options: list[dict[str, Tensor]] = []
    main = getattr(model, "main_input_name", "input_ids")
    if "pixel_values" in accepted:
        images = [pixels, torch.randn(BATCH, frames, channels, *size, generator=draw)]
        for image in images:
            options += [{"pixel_values": image}, {"pixel_values": image, **text}]
        patches = torch.randn(BATCH, 16, channels * PATCH * PATCH, generator=draw)
        options.append({"pixel_values": patches, **text})
    if "pixel_values_videos" in accepted:
        options.append({"pixel_values_videos": torch.randn(BATCH, frames, channels, *size, generator=draw)})
    if "input_values" in accepted:
        options.append({"input_values": torch.randn(BATCH, 8000, generator=draw)})
        options.append({"input_values": torch.randn(BATCH, 1, 8000, generator=draw)})
        length = first(config, "max_length") or 64
        options.append(
            {
                "input_values": torch.randn(
                    BATCH, length if isinstance(length, int) else 64, bins if isinstance(bins, int) else 80, generator=draw
                )
            }
        )
    if "input_features" in accepted:
        decoder = {"decoder_input_ids": made["decoder_input_ids"]} if "decoder_input_ids" in accepted else {}
        for shape in ((BATCH, bins, 2 * context), (BATCH, 64, bins), (BATCH, bins, 64)):
            if all(isinstance(each, int) for each in shape):
                options.append({"input_features": torch.randn(*shape, generator=draw), **decoder})
    for name in ("x", "features", "hidden_states"):
        if name in accepted and name == main:
            options.append({name: torch.randn(BATCH, LENGTH, first(config, "hidden_size") or 32, generator=draw)})
    if text and main == "input_ids":
        options.insert(0, text)
        options.insert(1, {"input_ids": ids})
    elif text:
        options.append(text)
    if "bbox" in accepted:
        options = [{**each, "bbox": torch.zeros(*ids.shape, 4, dtype=torch.long)} for each in options]
    return options


def tensors(thing: Any, path: str = "") -> list[tuple[str, Tensor]]:
    """Return all tensors of an output with their places."""
    if isinstance(thing, Tensor):
        return [(path, thing)]
    if isinstance(thing, dict):
        return [each for name, part in thing.items() for each in tensors(part, f"{path}.{name}")]
    if isinstance(thing, list | tuple):
        return [each for number, part in enumerate(thing) for each in tensors(part, f"{path}.{number}")]
    return []


def run(model: nn.Module, inputs: dict[str, Tensor], **options: Any) -> tuple[Any, Tensor]:
    """Return what a model returns and the state of the random numbers after it."""
    torch.manual_seed(1)
    if "use_cache" in inspect.signature(model.forward).parameters:
        options["use_cache"] = False
    with torch.no_grad():
        return model(**inputs, **options), torch.get_rng_state()


def same(one: Any, other: Any) -> bool:
    """Return whether two outputs are equal, bit by bit."""
    first_ones, others = tensors(one), tensors(other)
    return len(first_ones) == len(others) and all(
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num()) if a.dtype.is_floating_point else torch.equal(a, b)
        for (_, a), (_, b) in zip(first_ones, others, strict=True)
    )


def compare(model: nn.Module, eager: nn.Module | None, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """Capture one run, and compare it with a run without, and with the weights that the eager model returns."""
    expected, state = run(model, inputs)
    own: list[Tensor] = []
    note = ""
    if eager is not None:
        try:
            returned, _ = run(eager, inputs, output_attentions=True)
            kept = {place: each for place, each in tensors(returned) if each.shape and each.is_floating_point()}
            own = [each for place, each in kept.items() if "attentions" in place and each.ndim >= 3]
            pairs = [
                (each, kept[place]) for place, each in tensors(expected) if place in kept and each.shape == kept[place].shape
            ]
            if not all(torch.allclose(one, other, rtol=0, atol=1e-3, equal_nan=True) for one, other in pairs):
                own, note = [], "eager and this implementation have other results, so their weights differ too"
        except Exception as error:  # not every model returns its weights
            note = f"output_attentions: {type(error).__name__}: {str(error)[:80]}"
    unseen: list[str] = []
    refused = ""
    warned: list[str] = []
    caught: Any = None
    try:
        with warnings.catch_warnings(record=True) as warning:
            warnings.simplefilter("always")
            with regard.capture(model) as caught:
                found, after = run(model, inputs)
        warned = [str(each.message)[:150] for each in warning if "capture" in str(each.message)]
    except RequestError as error:
        refused = str(error)
    identical = same(found, expected) and torch.equal(after, state)
    unseen = list(getattr(caught, "unseen", []))
    seen = [call.weights for call in caught.calls]
    free = list(range(len(seen)))
    missing = []
    for number, weights in enumerate(own):
        match = next((index for index in free if is_same(seen[index], weights)), None)
        if match is None:
            missing.append((number, tuple(weights.shape)))
        else:
            free.remove(match)
    joined = (
        [torch.cat(pair, -1) for pair in zip(*(_field(returned, name) for name in _PARTS), strict=False)] if missing else []
    )
    if own and not missing:
        verdict = "exact"
    elif (
        joined and len(joined) * 2 == len(missing) and all(any(is_same(seen[index], each) for index in free) for each in joined)
    ):
        verdict = "joined"
    elif (
        own
        and len(missing) == len(free)
        and all(is_less(own[missed[0]], seen[index]) for missed, index in zip(missing, free, strict=True))
    ):
        verdict = "own is less"
    elif refused:
        verdict = "refused"
    elif not own:
        verdict = "no own" + ("; listed" if unseen else "")
    else:
        verdict = "listed" if unseen else "WRONG"
    return {
        "verdict": verdict, "identical": identical, "own": len(own), "seen": len(seen), "extra": len(free),
        "missing": missing[:3], "unseen": unseen[:4], "warned": warned[:2], "refused": refused[:200], "note": note,
        "extra_names": [caught.calls[index].name for index in free[:3]], "shapes": [tuple(each.shape) for each in seen[:2]],
    }  # fmt: skip


_PARTS = ("decoder_attentions", "cross_attentions")


def _field(output: Any, name: str) -> tuple[Tensor, ...]:
    return getattr(output, name, None) or ()


def is_same(seen: Tensor, weights: Tensor) -> bool:
    """Return whether captured weights equal those of the model, up to the rounding of float32."""
    if weights.numel() and weights.min() < 0:  # some models return the scores before the softmax
        weights = weights.softmax(-1)
    if weights.ndim == 3 and seen.ndim == 4:  # the model returns heads in the axis of the batch
        seen = seen.flatten(0, 1)
    if seen.shape != weights.shape:
        return False
    return torch.allclose(seen.float(), weights.float(), rtol=0, atol=2e-5, equal_nan=True)


def is_less(weights: Tensor, seen: Tensor) -> bool:
    """Return whether the model's weights are the mean over heads of those captured, or those of its last tokens."""
    if weights.shape == seen.shape and weights.ndim == 4:
        return bool((weights == weights[:, :1]).all()) and is_same(seen.mean(1, keepdim=True), weights[:, :1])
    rows, columns = weights.shape[-2:]
    return weights.shape[:-2] == seen.shape[:-2] and is_same(seen[..., -rows:, -columns:], weights)


def architectures() -> list[tuple[str, Any, Any]]:
    """Return name, class of the configuration and class of the model of every architecture."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    found = []
    for name, classes in sorted(MODEL_MAPPING_NAMES.items()):
        for each in (classes,) if isinstance(classes, str) else classes[:1]:
            try:
                found.append((name, CONFIG_MAPPING[name], getattr(transformers, each)))
            except Exception as error:
                found.append((name, None, f"{type(error).__name__}: {error}"))
    return found


def examine(name: str, config_class: Any, model_class: Any, kind: str) -> dict[str, Any]:
    """Return one row of the table."""
    row: dict[str, Any] = {"name": name, "kind": kind}
    if config_class is None:
        return row | {"verdict": "not built", "why": str(model_class)[:150]}
    try:
        eager = build(name, config_class, model_class, "eager")
        model = eager if kind == "eager" else build(name, config_class, model_class, kind)
        model.load_state_dict(eager.state_dict())
    except Exception as error:
        return row | {"verdict": "not built", "why": f"{type(error).__name__}: {str(error)[:150]}"}
    why = ""
    for inputs in inputs_of(model, level=0):
        try:
            run(eager, inputs)
        except Exception as error:  # try the next inputs
            why = why or f"{type(error).__name__}: {str(error)[:150]}"
            continue
        try:
            return row | compare(model, eager, inputs)
        except Exception as error:
            return row | {"verdict": "WRONG", "why": f"{type(error).__name__}: {str(error)[:300]}"}
    return row | {"verdict": "not built", "why": why or "no inputs known"}


class TooLongError(BaseException):
    """The time of an architecture is over; not an `Exception`, so that no other error is made of it."""


def _alarm(*_: Any) -> None:
    raise TooLongError("more than 40 s")


def row_of(name: str, config_class: Any, model_class: Any, kind: str) -> dict[str, Any]:
    """Return one row of the table, after at most 40 s."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(40)
    try:
        return examine(name, config_class, model_class, kind)
    except Exception as error:
        return {"name": name, "kind": kind, "verdict": "not built", "why": f"{type(error).__name__}: {str(error)[:150]}"}
    except TooLongError as error:
        return {"name": name, "kind": kind, "verdict": "not run", "why": str(error)}
    finally:
        signal.alarm(0)


def work(names: list[str], out: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known = {name: (config, model) for name, config, model in architectures()}
    for name in names:
        for kind in ("eager", "sdpa"):
            with open(out, "a") as file:
                file.write(json.dumps({"name": name, "kind": kind, "verdict": "started"}) + "\n")
            row = row_of(name, *known[name], kind)
            with open(out, "a") as file:
                file.write(json.dumps(row) + "\n")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--out", required=True)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--step", type=int, default=25, help="architectures of one process")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args(arguments)
    if options.worker:
        work(options.only.split(","), options.out)
        return
    part, parts = map(int, options.part.split("/"))
    names = options.only.split(",") if options.only else [name for name, _, _ in architectures()][part::parts]
    environment = dict(os.environ, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    todo = names
    while todo:
        now, todo = todo[: options.step], todo[options.step :]
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tools.capture_survey",
            "--worker",
            "--only",
            ",".join(now),
            "--out",
            options.out,
        ]
        subprocess.run(
            ["bash", "-c", 'ulimit -v 12000000; exec "$@"', "-", *command],
            env=environment,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        with open(options.out) as file:
            done = {row["name"] for row in map(json.loads, file)}
        todo = [name for name in now if name not in done] + todo
        print(time.strftime("%H:%M:%S"), len(todo), "left", flush=True)


if __name__ == "__main__":
    main()
