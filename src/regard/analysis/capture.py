"""Capture the attention weights inside any PyTorch module while it runs.

with regard.capture(model) as caught:
    model(tokens)
caught["encoder.layers.0.self_attn"]                 # (B,H,Q,K)
caught.to_record(["she", "kissed", "him"]).save("grid.png", site="encoder")
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from regard.analysis.function_calls import watch_calls
from regard.analysis.selection import Selection, TopWeights
from regard.analysis.torch_modules import find_encoders, replace_forward, reporting_attention, reporting_encoder
from regard.attention.base import Attention
from regard.attention.capabilities import Observation
from regard.errors import RequestError, nearest
from regard.records import AttentionRecord
from regard.records.builders import all_causal
from regard.records.data import NOTE
from regard.records.subwords import Scheme, record_of_tokens

_ACROSS = ("cross", "encoder_attn", "encdec")
"""Substrings of the names of modules that attend to another sequence."""


@dataclass(frozen=True)
class Call:
    """One call of an attention module."""

    name: str
    """Name of the called module in `named_modules`; empty for the module given to `capture`."""
    kept: Tensor | TopWeights
    """The kept part of the weights (B,H,Q,K), or (B,Q,K) for a mechanism without heads; detached."""
    within: bool | None
    """Whether queries and keys came from the same sequence; None if that is not known."""

    @property
    def weights(self) -> Tensor:
        """Return the weights as one tensor, with zeros in place of those that `top_k` left out."""
        return self.kept.dense() if isinstance(self.kept, TopWeights) else self.kept


class Captured(Mapping[str, Tensor]):
    """Mapping from the name of each attention module to the weights of its last call.

    The names are those of `module.named_modules()`. The list `calls` has all captured calls in order.
    """

    def __init__(self, selection: Selection | None = None) -> None:
        self.calls: list[Call] = []
        self._selection = selection or Selection()

    def take(self, name: str, weights: Tensor, within: bool) -> None:
        """Add a call of a module, if it is selected; `within` says whether queries and keys came from the same sequence."""
        if self._selection.includes(name):
            self.calls.append(Call(name, self._selection.keep(weights, name), within))

    def take_observation(self, name: str, observation: Observation) -> None:
        """Add a call of one of regard's mechanisms, if it is selected."""
        self.take(name, observation.weights, observation.within)

    def take_kept(self, name: str, kept: Tensor | TopWeights) -> None:
        """Add a call of attention that a module computes in its own code.

        The module attends to another sequence if its name contains `cross`, `encoder_attn` or `encdec`, or if the numbers of
        queries and keys differ. Otherwise it is not known where the keys come from.
        """
        queries, keys = (kept.values.shape[-2], kept.num_keys) if isinstance(kept, TopWeights) else kept.shape[-2:]
        across = any(part in name.lower() for part in _ACROSS) or queries != keys
        self.calls.append(Call(name, kept, within=False if across else None))

    def __getitem__(self, name: str) -> Tensor:
        for call in reversed(self.calls):
            if call.name == name:
                return call.weights
        names = list(self)
        raise KeyError(f"no attention {name!r} was captured; captured: {', '.join(names) or 'none'}{nearest(name, names)}")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(call.name for call in self.calls))

    def __len__(self) -> int:
        return len({call.name for call in self.calls})

    def __contains__(self, name: object) -> bool:
        return any(call.name == name for call in self.calls)

    def to_record(
        self,
        tokens: Sequence[str],
        target_tokens: Sequence[str] | None = None,
        *,
        batch: int = 0,
        families: Mapping[str, str] | None = None,
        subwords: Scheme = "auto",
        special: Collection[str] | None = None,
        source_text: str = "",
        target_text: str = "",
        note: str = NOTE,
    ) -> AttentionRecord:
        """Make a record of one run of the module.

        Each call becomes a site: `encoder.i`, `decoder.i` or `cross.i`, where i counts the calls of this kind from 0.

        - Without targets: `decoder.i` if no token attends to later tokens in any call, as in a language model, otherwise
          `encoder.i`.
        - With targets: `cross.i` if queries and keys are different sequences, otherwise `decoder.i` if the module's name
          contains `decoder`, otherwise `encoder.i`. A call of a function, such as `scaled_dot_product_attention`, does not show
          where its keys come from. The keys count as another sequence if queries and keys differ in number, if the module's
          name contains `cross`, `encoder_attn` or `encdec`, or if its name contains `decoder` and queries attend to later keys.

        Args:
            tokens: The S source tokens, including special tokens and padding; for a language model, the tokens that it read.
            target_tokens: The T target tokens, if the module reads a target: those that it reads, including the start symbol.
            batch: Index of the sentence in the batch, from 0.
            families: Mapping of module names to `encoder`, `decoder` or `cross`, for modules that the rules above get wrong.
            subwords: How tokens mark the beginning of a word; see `regard.join_subwords`.
            special: Tokens that belong to no word; see `regard.join_subwords`.
            source_text: The original source text; by default its words joined by spaces.
            target_text: The original target text; by default its words joined by spaces.
            note: Last sentence of captions, on what the weights prove and what they do not prove.

        Raises:
            RequestError: If nothing was captured, the batch has no sentence with this index, `families` names a module whose
                attention was not captured or a family other than these three, a module attends to another sequence and no
                target tokens are given, or there is no such scheme of subwords.
            DataError: If a weight is not a finite number.
            ShapeError: If the numbers of weights and tokens differ, for example because the module ran more than once.
        """
        if not self.calls:
            raise RequestError(
                "to_record: nothing was captured: run the module inside `with capture(module)`, which captures calls of "
                "nn.MultiheadAttention, of scaled_dot_product_attention and of regard's own attention, and a softmax that is "
                "multiplied by values"
            )
        _check_families(families or {}, list(self))
        weights = self.weights_by_site(batch=batch, has_target=target_tokens is not None, families=families or {})
        if target_tokens is None:
            _check_no_cross(self.calls, weights)
        if target_tokens is None and all(site.startswith("decoder") for site in weights):
            tokens, target_tokens, source_text, target_text = (), tokens, "", target_text or source_text
        return record_of_tokens(
            tokens,
            target_tokens,
            weights,
            subwords=subwords,
            special=special,
            source_text=source_text,
            target_text=target_text,
            target_is_read=target_tokens is not None,
            note=note,
        )

    def weights_by_site(self, *, batch: int, has_target: bool, families: Mapping[str, str]) -> dict[str, np.ndarray]:
        """Return the weights of one sentence of the batch by site; the sites are named as in `to_record`."""
        for size in (len(call.weights) for call in self.calls):
            if not 0 <= batch < size:
                raise RequestError(f"to_record: batch is {batch}, and there are {size} sentences")
        each = [call.weights[batch].float().numpy(force=True) for call in self.calls]
        causal = [all_causal({"": weights}) for weights in each]
        weights: dict[str, np.ndarray] = {}
        count: dict[str, int] = {}
        for call, found, behind in zip(self.calls, each, causal, strict=True):
            family = families.get(call.name) or _family(call, has_target=has_target, is_causal=behind, only_causal=all(causal))
            weights[f"{family}.{count.setdefault(family, 0)}"] = found
            count[family] += 1
        return weights


@contextmanager
def capture(
    module: nn.Module,
    *,
    names: Collection[str] | None = None,
    heads: Sequence[int] | None = None,
    top_k: int | None = None,
    device: torch.device | str | None = None,
) -> Iterator[Captured]:
    """Capture the attention weights inside a module.

    The function captures `nn.MultiheadAttention`, `scaled_dot_product_attention` and regard's own mechanisms. If the module
    contains none of regard's mechanisms, it also captures the result of each softmax over the last of three or more axes, if
    this result is then multiplied by another tensor, such as the values.

    The module's results stay bit-identical. Weights are recorded before dropout, under the name of the innermost module that
    computed them. The weights of `scaled_dot_product_attention` are computed again from its arguments, some rows at a time;
    the weights of `nn.MultiheadAttention` come from a second call. PyTorch's encoders run twice if they take their fused path,
    which computes no weights. When the context ends, even by an exception, the module is restored. Modules that are already
    compiled or scripted are not captured, nor are kernels that compute attention without PyTorch's functions, such as
    FlexAttention.

    Args:
        module: Any PyTorch module.
        names: Names of the modules whose weights are kept, or patterns such as `encoder.layer.0.*`; None for all.
        heads: Indices of the heads that are kept, from 0; None for all.
        top_k: Number of weights that are kept for each query, the largest ones; None for all. The others become zero.
        device: Device on which the weights are kept, such as `cpu`; None for that of the module.

    Yields:
        The weights captured so far.

    Raises:
        RequestError: If no module matches one of `names`, a module has too few heads for `heads`, or, with `names=None`, the
            module contains no attention and computed none.
        ConfigError: If `names`, `heads` or `top_k` has the wrong type or is out of range.
    """
    selection = Selection(names, heads, top_k, device)
    parts = dict(module.named_modules())
    selection.check_names(parts)
    ours = {name: part for name, part in parts.items() if isinstance(part, Attention)}
    theirs = {name: part for name, part in parts.items() if isinstance(part, nn.MultiheadAttention)}
    encoders, caught = find_encoders(module), Captured(selection)
    with ExitStack() as stack:
        for name, part in ours.items():
            stack.enter_context(part.observe(partial(caught.take_observation, name)))
        for name, attention in theirs.items():
            stack.enter_context(replace_forward(attention, partial(reporting_attention, attention, name, caught.take)))
        for encoder in encoders:
            inside = {name for name, each in theirs.items() if each in set(encoder.modules()) and selection.includes(name)}
            stack.enter_context(replace_forward(encoder, partial(reporting_encoder, inside, caught.calls)))
        # With hooks inside, PyTorch's encoders would not take their fused path, and their results could change in the last
        # bits. So these modules get no hooks. nn.MultiheadAttention needs none, because its `forward` was replaced above.
        without = {each for encoder in encoders for each in encoder.modules()} | set(theirs.values())
        stack.enter_context(watch_calls(module, caught.take_kept, selection, without=without, products=not ours))
        yield caught
    if not ours and not theirs and not caught.calls and names is None:
        raise RequestError(
            f"capture: this {type(module).__name__} contains no nn.MultiheadAttention and no mechanism of regard, and it did "
            "not call scaled_dot_product_attention or multiply a softmax by values; a model of transformers needs "
            "attn_implementation='sdpa' or 'eager'"
        )


def _family(call: Call, *, has_target: bool, is_causal: bool, only_causal: bool) -> str:
    if call.within is False:
        return "cross"
    if not has_target:
        return "decoder" if only_causal else "encoder"
    if "decoder" not in call.name.lower():
        return "encoder"
    return "decoder" if call.within or is_causal else "cross"


def _check_families(families: Mapping[str, str], names: Sequence[str]) -> None:
    for name, family in families.items():
        if name not in names:
            meant = nearest(name, names)
            raise RequestError(f"to_record: families names {name!r}, but no attention of such a module was captured{meant}")
        if family not in ("encoder", "decoder", "cross"):
            raise RequestError(f"to_record: {name!r} has the family {family!r}, expected encoder, decoder or cross")


def _check_no_cross(calls: Sequence[Call], weights: Mapping[str, np.ndarray]) -> None:
    """Raise an error if one of the calls, whose weights are given by site in the same order, counts as cross attention."""
    for call, (site, found) in zip(calls, weights.items(), strict=True):
        if site.startswith("cross"):
            queries, keys = found.shape[-2:]
            raise RequestError(
                f"to_record: {call.name!r} counts as cross attention ({queries} queries, {keys} keys), and no target tokens "
                "were given: give the tokens of the queries as target_tokens, or the module's family in families"
            )
