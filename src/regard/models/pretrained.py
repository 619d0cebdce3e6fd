"""Pretrained encoders in the format of Hugging Face's `transformers`, with regard's attention sites.

`transformers` builds the encoder and calls `attend_at_site` for the attention of each layer, so its weights are recorded and
changed by site like those of regard's own layers. No code of a model is run: a model of a family that `transformers` itself
defines is built from its settings, and its weights are read from a safetensors file.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Integer
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.attention.capabilities import reweighted
from regard.attention.heads.attend import attend
from regard.attention.masks import resolve_key_mask
from regard.config import PretrainedEncoderConfig, PretrainedImageConfig
from regard.errors import ConfigError, RequestError, install_command
from regard.reweight import Sites
from regard.text.tokenizers.pretrained import ARCHITECTURE, WEIGHTS, find_encoder

FAMILIES = {"bert": 0, "roberta": 2, "xlm-roberta": 2, "camembert": 2, "distilbert": 0, "electra": 0, "ernie": 0}
"""Supported values of `model_type`, whose encoders let each token attend to all tokens; and the number of positions that each
family leaves unused.
"""
IMAGE_FAMILIES = {"vit": 1, "deit": 2, "clip_vision_model": 1, "clip": 1, "siglip_vision_model": 0, "siglip": 0}
"""Supported values of `model_type` of vision encoders, and the number of class tokens before the patches."""
# Settings that decide which weights an encoder has and what it computes from them. All others, among them names of code, are
# left out.
_USED = {
    *("vocab_size", "type_vocab_size", "task_type_vocab_size", "use_task_id", "pad_token_id", "max_position_embeddings"),
    *("hidden_size", "embedding_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "hidden_act"),
    *("dim", "hidden_dim", "n_layers", "n_heads", "activation", "sinusoidal_pos_embds", "layer_norm_eps"),
    *("image_size", "patch_size", "num_channels", "qkv_bias"),
}
MOST_CHARACTERS, _MOST_LAYERS = 1 << 16, 200
# Maximum number of values that a frozen encoder keeps of the states of its training inputs: 512 MB.
_MOST_KEPT = 1 << 27
_LAYER = re.compile(r"\.layers?\.(\d+)\.")
_ADAPTER = re.compile(r"\.lora_[AB]\.")


def read_encoder(config: PretrainedEncoderConfig) -> PretrainedEncoderConfig:
    """Return the settings with the architecture and the hash of the encoder that they name.

    Raises:
        ConfigError: If the encoder does not exist, a file is missing, or it is of an unknown family.
    """
    found = replace(config, architecture=_read_settings(config, ARCHITECTURE))
    if isinstance(found, PretrainedImageConfig):
        found = replace(found, preparation=_read_settings(config, config.inputs))
    transformers_config(found)
    return replace(found, checksum=_checksum(find_encoder(config.name, config.inputs) / WEIGHTS))


def _read_settings(config: PretrainedEncoderConfig, file: str) -> str:
    """Return the content of a JSON file of an encoder on one line."""
    try:
        text = (find_encoder(config.name, config.inputs) / file).read_text(encoding="utf-8")
        return json.dumps(json.loads(text[:MOST_CHARACTERS]))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the encoder '{config.name}' cannot be read ({error!s:.200}); copy it again") from error


def max_tokens(config: PretrainedEncoderConfig) -> int:
    """Return the maximum number of tokens that an encoder reads, including its start and end symbols."""
    known = transformers_config(config)
    return int(known.max_position_embeddings) - FAMILIES[known.model_type]


def _checksum(path: Any) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _import_transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a pretrained encoder needs the package {error.name}, which is not installed: {install_command('pretrained')}"
        ) from error
    return transformers


@contextmanager
def _reported(config: PretrainedEncoderConfig) -> Iterator[None]:
    """Raise a ConfigError for errors of `transformers`, which checks settings in many ways."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        message = f"the {ARCHITECTURE} of the encoder '{config.name}' has a wrong value: {type(error).__name__} {reason:.200}"
        raise ConfigError(message) from error


def transformers_config(config: PretrainedEncoderConfig) -> Any:
    """Return the encoder's settings as an object of `transformers`. They are checked, because they may come from a stranger."""
    where = f"the {ARCHITECTURE} of the encoder '{config.name}'"
    try:
        plain = json.loads(config.architecture[:MOST_CHARACTERS])
        family = plain["model_type"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{where} does not describe a model: it has no model_type") from error
    families = IMAGE_FAMILIES if isinstance(config, PretrainedImageConfig) else FAMILIES
    if not isinstance(family, str) or family not in families:
        code = "; its own code is not run" if "auto_map" in plain else ""
        raise ConfigError(f"{where} has model_type {family!r:.60}, expected one of: {', '.join(families)}{code}")
    if (kind := plain.get("position_embedding_type", "absolute")) != "absolute":  # the library would leave these weights out
        raise ConfigError(f"{where} has position_embedding_type {kind!r:.60}, expected absolute")
    library = _import_transformers()
    with _reported(config):
        if f"{family}_vision_model" in families:  # clip and siglip: only the part that reads images is used
            family, plain = f"{family}_vision_model", plain["vision_config"]
        used = {name: value for name, value in plain.items() if name in _USED}
        if families is IMAGE_FAMILIES:  # they have dropout rates instead of `Dropout` modules; SigLIP's pooling is unused
            rates = ("hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout")
            used |= {"vision_use_head": False, **dict.fromkeys(rates, config.dropout)}
        made = library.AutoConfig.for_model(family, **used)
        layers = int(made.num_hidden_layers)
    if not 1 <= layers <= _MOST_LAYERS:
        raise ConfigError(f"{where} has {layers:,} layers, expected 1 to {_MOST_LAYERS}")
    return made


# The sites of the current call. Outside a call, as when a layer is computed again for its gradient, nothing is recorded.
_SITES: ContextVar[Sites | None] = ContextVar("sites", default=None)


def attend_at_site(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute one layer's attention by `heads.attend`, as an attention function of `transformers`.

    Query, key and value are (B,H,S,E); the context is (B,S,H,E), the weights are (B,H,S,S).
    """
    sites = _SITES.get() or Sites()
    options = sites.options(module.site)
    allowed = None if attention_mask is None else attention_mask == 0
    change = options.get("reweight")
    context, weights = attend(
        query,
        key,
        value,
        attention_mask,
        scale=scaling,
        dropout=dropout,
        change_weights=change and (lambda weights: reweighted(weights, allowed, change)),
        need_weights=options["need_weights"],
    )
    sites.add(module.site, weights)
    return context.transpose(1, 2).contiguous(), weights


class PretrainedEncoder(nn.Module, ABC):
    """Base class of encoders of `transformers`: states (B,S,D) of the tokens of a text, or of the patches of an image.

    Training changes none of its weights, adapters (W x + 2 B A x in each linear map of the layers, with B zero at first),
    or all weights, by `config.tuning`. Weights that it does not change are not in `state_dict`, unless `config.include`.

    Args:
        config: The settings, with the architecture (`read_encoder`).

    Attributes:
        size: Width D of the states.
        sites: Names of the attentions of the layers: `encoder.0`, `encoder.1`, …

    Raises:
        ConfigError: If the encoder is unknown, its files differ from those that the settings were made with, or a package is
            missing.

    Reference:
        Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1.
    """

    def __init__(self, config: PretrainedEncoderConfig) -> None:
        super().__init__()
        self.config = config
        known, library = transformers_config(config), _import_transformers()
        self.stored = config.tuning == "whole" or config.include
        """Whether `state_dict` contains all weights of the encoder."""
        outside = not self.stored and torch.get_default_device().type != "meta"
        # Settings from a stranger could describe an encoder that fills the memory.
        if outside and _read_settings(config, ARCHITECTURE) != config.architecture:
            raise ConfigError(
                f"the {ARCHITECTURE} of the encoder '{config.name}' is not the one that the model was trained with"
            )
        library.AttentionInterface.register("regard", attend_at_site)
        with _reported(config):
            self.body = library.AutoModel.from_config(known, attn_implementation="regard").float()
        pooling = "post_layernorm" if known.model_type == "clip_vision_model" else "pooler"
        if getattr(self.body, pooling, None) is not None:
            setattr(self.body, pooling, nn.Identity())  # regard's pooling replaces it
        self.size, self.num_layers = int(known.hidden_size), int(known.num_hidden_layers)
        self.sites = tuple(f"encoder.{number}" for number in range(self.num_layers))
        attentions = [part for part in self.body.modules() if type(part).__name__.endswith("Attention")]
        innermost = [part for part in attentions if not any(inner in attentions for inner in list(part.modules())[1:])]
        for site, part in zip(self.sites, innermost, strict=True):
            part.site = site
        for part in self.body.modules():
            if isinstance(part, nn.Dropout):
                part.p = config.dropout
        self._recomputed: list[Any] = []
        if config.tuning == "lora":
            self._add_adapters()
        if outside:
            self.load()
        self._kept: dict[bytes, Tensor] = {}  # states (S,D) of training inputs that a frozen encoder has read
        self._prepare_training()

    def _add_adapters(self) -> None:
        """Add adapters to all linear maps of the layers; each layer is computed again for its gradients, which saves memory."""
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"tuning lora of a pretrained encoder needs the package {error.name}, which is not installed: "
                f"{install_command('pretrained')}"
            ) from error
        maps = [name for name, part in self.body.named_modules() if isinstance(part, nn.Linear) and _LAYER.search(f".{name}.")]
        inject_adapter_in_model(LoraConfig(r=self.config.rank, lora_alpha=2 * self.config.rank, target_modules=maps), self.body)
        self.body.config.use_cache = False  # otherwise, the library warns that it switches its cache off
        name = "activation_checkpointing_enable"  # an older transformers names it otherwise
        getattr(self.body, name, self.body.gradient_checkpointing_enable)({"use_reentrant": False})
        self._recomputed = [part for part in self.body.modules() if getattr(part, "gradient_checkpointing", False)]

    def _prepare_training(self) -> None:
        """Mark the weights to train, with the learning rates of their layers, and leave the others out of `state_dict`."""
        config = self.config
        for name, parameter in self.body.named_parameters():
            parameter.requires_grad_(config.tuning == "whole" or bool(_ADAPTER.search(name)))
            layer = _LAYER.search(f".{name}")
            below = self.num_layers - 1 - int(layer[1]) if layer else self.num_layers
            parameter.learning_rate_factor = config.rate * config.layer_decay**below
        kept = {
            f"body.{name}": tensor for name, tensor in self.body.state_dict(keep_vars=True).items() if not tensor.requires_grad
        }
        self.left_out = {} if self.stored else kept
        self.register_state_dict_post_hook(_leave_out)
        self.register_load_state_dict_pre_hook(_put_back)

    def load_pretrained(self) -> None:
        """Copy the pretrained weights into a new encoder that training changes; others have them already."""
        if self.stored:
            self.load()

    def load(self) -> None:
        """Copy the weights of the encoder's folder into the encoder.

        Raises:
            ConfigError: If the weights are not those that the settings were made with, or do not fit the architecture.
        """
        name, folder = self.config.name, find_encoder(self.config.name, self.config.inputs)
        if self.config.checksum != _checksum(folder / WEIGHTS):
            raise ConfigError(
                f"the weights of the encoder '{name}' are not those that the model was trained with: their SHA-256 is not "
                f"{self.config.checksum[:12]}…; name the same version of the encoder"
            )
        log = _import_transformers().utils.logging
        shown, level = log.is_progress_bar_enabled(), log.get_verbosity()
        log.disable_progress_bar()
        log.set_verbosity_error()  # otherwise, it lists the weights that only a larger model has, such as those of CLIP's texts
        try:
            # Given a folder, the library would also load adapters that it finds there.
            loaded, facts = type(self.body).from_pretrained(
                None,
                config=self.body.config,
                state_dict=load_file(folder / WEIGHTS),
                dtype=torch.float32,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
        except (OSError, RuntimeError, ValueError, KeyError, SafetensorError) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise ConfigError(
                f"the weights of the encoder '{name}' cannot be read ({reason:.200}); copy the encoder again"
            ) from error
        finally:
            log.set_verbosity(level)
            if shown:
                log.enable_progress_bar()
        others = {*facts["missing_keys"], *(each for each, *_ in facts["mismatched_keys"])}
        if missing := [each for each in others if not each.startswith("pooler.")]:
            raise ConfigError(
                f"the {WEIGHTS} of the encoder '{name}' lacks the tensor '{min(missing)}', or it has another size than in its "
                f"{ARCHITECTURE}; copy the encoder again"
            )
        own = {each.replace(".base_layer.", "."): tensor for each, tensor in self.body.state_dict().items()}
        for each, tensor in loaded.state_dict().items():
            if each in own:
                own[each].copy_(tensor)

    def train(self, mode: bool = True) -> "PretrainedEncoder":
        """Set the training mode; a frozen encoder has no dropout."""
        super().train(mode)
        self.body.train(mode and self.config.tuning != "frozen")
        return self

    @abstractmethod
    def embed(self, source: Integer[Tensor, "B S *P"]) -> Float[Tensor, "B S E"]:
        """Return the vectors of the source that the encoder reads, before positions are added."""

    @abstractmethod
    def compute(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Return the states of the top layer."""

    def forward(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the states of the top layer, and add the weights (B,H,S,S) of the layers to `sites`."""
        if self.training and self.config.tuning == "frozen" and not sites.record and not sites.reweight:
            return self._read_once(embedded, mask)
        return self._read(embedded, mask, sites)

    @torch.no_grad()
    def _read_once(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Return the states of training inputs, computed only for those that were not read before; zeros at padding."""
        rows, found = embedded.cpu().numpy(), []
        for number, length in enumerate(mask.sum(1).tolist()):
            key = hashlib.sha256(rows[number, :length].tobytes()).digest()
            states = self._kept.get(key)
            if states is None:
                # Each input is read alone, so that its states do not depend on the batch, which differs after a resume.
                states = self._read(embedded[number : number + 1, :length], mask[number : number + 1, :length], Sites())[0]
                if len(self._kept) * states.numel() < _MOST_KEPT:
                    self._kept[key] = states
            found.append(states)
        padded = nn.utils.rnn.pad_sequence(found, batch_first=True)
        return nn.functional.pad(padded, (0, 0, 0, embedded.shape[1] - padded.shape[1]))

    def _read(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        # In the backward pass, `_SITES` is reset, and a layer that is computed again would have other weights.
        for layer in self._recomputed:
            layer.gradient_checkpointing = not (sites.record or sites.reweight)
        token = _SITES.set(sites)
        try:
            return self.compute(embedded, mask)
        finally:
            _SITES.reset(token)

    def merge_adapters(self) -> None:
        """Add the adapters to the weights that they adapt: W ← W + 2 B A. The states stay the same, and take less time.

        Training afterwards does not change the adapters.
        """
        from peft.tuners.lora import LoraLayer

        for part in self.body.modules():
            if isinstance(part, LoraLayer):
                part.merge()
                if self.stored:  # `state_dict` contains the new W, to which a loaded encoder must not add 2 B A again
                    for weight in part.lora_B.parameters():
                        nn.init.zeros_(weight)


class PretrainedTextEncoder(PretrainedEncoder):
    """States (B,S,D) of the tokens of texts, whose first and last are the encoder's start and end symbols.

    `encoder_ids` (V,) has the encoder's id of each token.
    """

    encoder_ids: Tensor

    def __init__(self, config: PretrainedEncoderConfig, encoder_ids: Sequence[int]) -> None:
        super().__init__(config)
        self.max_tokens = max_tokens(config)
        last, table = max(encoder_ids, default=0), self.body.get_input_embeddings().num_embeddings
        if last >= table:
            raise ConfigError(
                f"the tokenizer of the encoder '{config.name}' has the id {last:,}, but it embeds {table:,} tokens"
            )
        self.register_buffer("encoder_ids", torch.tensor(encoder_ids, dtype=torch.long), persistent=False)

    def embed(self, source: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        embedded: Tensor = self.body.get_input_embeddings()(self.encoder_ids[source])
        return embedded

    def compute(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        if embedded.shape[1] > self.max_tokens:
            raise RequestError(
                f"a text has {embedded.shape[1]:,} tokens, but the encoder '{self.config.name}' reads at most "
                f"{self.max_tokens:,}; split the text"
            )
        if not embedded.shape[1]:  # `transformers` cannot read texts without tokens
            return embedded.new_zeros(*embedded.shape[:2], self.size)
        allowed = resolve_key_mask(mask, embedded.dtype).hidden
        states: Tensor = self.body(inputs_embeds=embedded, attention_mask=allowed).last_hidden_state
        return states


def _leave_out(encoder: Any, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Remove the weights that training does not change from a state dict."""
    for name in encoder.left_out:
        state.pop(prefix + name, None)


def _put_back(encoder: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Add the weights that training does not change to a state dict that is loaded."""
    for name, tensor in encoder.left_out.items():
        state.setdefault(prefix + name, tensor)
