"""Capture the attention weights inside any PyTorch module while it runs.

with regard.capture(model) as caught:
    model(tokens)
caught["encoder.layers.0.self_attn"]                 # (B,H,Q,K)
caught.to_record(["she", "kissed", "him"]).save("grid.png", site="encoder")
"""

import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from regard.analysis.function_calls import Watch
from regard.analysis.kernels import seen_interfaces
from regard.analysis.observation import Call, Observer, Selection
from regard.attention.base import Attention
from regard.attention.capabilities import Observation
from regard.errors import RegardError, RequestError, nearest
from regard.records import AttentionRecord
from regard.records.builders import TokenOptions, record_of_tokens, shows_causal
from regard.records.data import NOTE


class Captured(Mapping[str, Tensor]):
    """Mapping from the name of each attention module to the weights of its last call.

    The names are those of `module.named_modules()`. The list `calls` has all captured calls in order.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.calls: list[Call] = observer.calls

    @property
    def unseen(self) -> tuple[str, ...]:
        """Names of the modules that seem to compute attention, but whose attention was not captured.

        They multiply a softmax by a tensor in a way that was not recognised; or they called another function for attention; or
        the name of their class contains `Attention`, or they are a pooling of regard, and nothing was captured in them; or
        capturing failed with a warning.
        """
        return tuple(self._observer.unseen())

    def __getitem__(self, name: str) -> Tensor:
        for call in reversed(self.calls):
            if call.name == name:
                return call.weights
        names = list(self)
        raise KeyError(
            f"no attention {name!r} was captured; captured: {', '.join(map(repr, names)) or 'none'}{nearest(name, names)}"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(call.name for call in self.calls))

    def __len__(self) -> int:
        return len({call.name for call in self.calls})

    def to_record(
        self,
        tokens: Sequence[str],
        target_tokens: Sequence[str] | None = None,
        *,
        batch: int = 0,
        families: Mapping[str, str] | None = None,
        target_is_read: bool = True,
        **options: Unpack[TokenOptions],
    ) -> AttentionRecord:
        """Make a record of one run of the module.

        Each call becomes a site: `encoder.i`, `decoder.i` or `cross.i`, where i counts the calls of this kind from 0.

        - Without targets: `decoder.i` if no token attends to later tokens in any call and any sentence of the batch, as in a
          language model, otherwise `encoder.i`. If weights don't show it, its attribute `is_causal` or `is_decoder` decides.
        - With targets: `cross.i` if queries and keys are different sequences, otherwise `decoder.i` if the module's name
          contains `decoder`, otherwise `encoder.i`. A call of a function, such as `scaled_dot_product_attention`, does not show
          where its keys come from. The keys count as another sequence if queries and keys differ in number, if the module's
          name contains `cross`, `encoder_attn` or `encdec`, or if its name contains `decoder` and queries attend to later keys.
        - If `capture` kept some rows: `cross.i`, from the tokens of these rows to all tokens.

        Args:
            tokens: The S source tokens, including special tokens and padding; for a language model, the tokens that it read.
            target_tokens: The T target tokens, if the module reads a target.
            batch: Index of the sentence in the batch, from 0.
            families: Mapping of module names to `encoder`, `decoder` or `cross`, for modules that the rules above get wrong.
            target_is_read: Whether `target_tokens` are the tokens that the decoder reads, including the start symbol, not those
                that it predicts.
            options: `subwords`, `units`, `special`, `source_text`, `target_text` and `note`, as for `regard.from_huggingface`.

        Raises:
            RequestError: If sentences and heads cannot be told apart, the batch has no such sentence, `families` names a module
                whose attention was not captured or another family, a module attends to another sequence and no target tokens
                are given, a module attends to source and target together, or `capture` kept some rows and there is a target.
            DataError: If a weight is not a finite number.
            ShapeError: If the numbers of weights and tokens differ, for example because the module ran more than once.
        """
        options["note"] = self.note(options.get("note", NOTE))
        if self._observer.selection.rows is not None:
            if target_tokens is not None or families:
                raise RequestError(
                    "to_record: capture kept some rows, from which a record can be made only for a module that reads one text, "
                    "without target_tokens and families; the weights of each module are caught[name]"
                )
            rows = self._observer.selection.rows_of(len(tokens), "the text")
            weights = {f"cross.{number}": self._sentence(call, batch) for number, call in enumerate(self.calls)}
            return record_of_tokens(tokens, [tokens[row] for row in rows], weights, target_is_read=True, **options)
        num_tokens = len(tokens), None if target_tokens is None else len(target_tokens)
        weights = self.weights_by_site(batch=batch, num_tokens=num_tokens, families=families or {})
        for call, (site, matrix) in zip(self.calls, weights.items(), strict=True):
            if target_tokens is None and site.startswith("cross"):
                queries, keys = matrix.shape[-2:]
                raise RequestError(
                    f"to_record: {call.name!r} counts as cross attention ({queries} queries, {keys} keys), and no target "
                    "tokens were given: give the tokens of the queries as target_tokens, or the module's family in families"
                )
        return record_of_tokens(
            tokens, target_tokens, weights, target_is_read=target_is_read and target_tokens is not None, **options
        )

    def weights_by_site(
        self, *, batch: int, num_tokens: tuple[int, int | None], families: Mapping[str, str]
    ) -> dict[str, np.ndarray]:
        """Return the weights of one sentence of the batch by site, as `to_record` names them; `num_tokens` are S and T."""
        for name, family in families.items():
            if name not in self:
                meant = nearest(name, list(self))
                raise RequestError(f"to_record: families names {name!r}, but no attention of such a module was captured{meant}")
            if family not in ("encoder", "decoder", "cross"):
                raise RequestError(f"to_record: {name!r} has the family {family!r}, expected encoder, decoder or cross")
        matrices = [self._sentence(call, batch) for call in self.calls]
        # All calls of a module decide together, because a short sentence may show nothing.
        causal = {name: self._is_causal(name) for name in self}
        weights: dict[str, np.ndarray] = {}
        count: dict[str, int] = {}
        source, target = num_tokens
        shapes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
        for call, matrix in zip(self.calls, matrices, strict=True):
            family = _family(call, has_target=target is not None, is_causal=causal[call.name], only_causal=all(causal.values()))
            fitting = [each for each, shape in shapes.items() if shape == matrix.shape[-2:]]
            if len({each.weights.shape for each in self.calls if each.name == call.name}) > 1 == len(fitting):
                family = fitting[0]  # encoder and decoder share this module
            family = families.get(call.name, family)
            if target and source and matrix.shape[-2:] == (target, source + target):
                raise RequestError(
                    f"to_record: {call.name!r} attends to source and target together ({source} + {target} keys), which no site "
                    "of a record can show: leave it out with names; its weights are caught[name]"
                )
            weights[f"{family}.{count.setdefault(family, 0)}"] = matrix
            count[family] += 1
        return weights

    @staticmethod
    def _sentence(call: Call, batch: int) -> np.ndarray:
        """Return the weights of one sentence. It must exist, and the sentences of the call must be separate."""
        shape = tuple(call.weights.shape)
        if not call.is_checked or len(shape) not in (3, 4):
            raise RequestError(
                f"to_record: the weights of {call.name!r} have shape {shape}, in which sentences and heads cannot be told "
                "apart: run one sentence at a time, or leave the module out with names"
            )
        if not 0 <= batch < shape[0]:
            raise RequestError(f"to_record: batch is {batch}, and there are {shape[0]} sentences")
        return call.weights[batch].float().numpy(force=True)

    def _is_causal(self, name: str) -> bool:
        """Return whether no query of a module attends to later keys, by its weights or, if unknown, its attribute."""
        calls = [call for call in self.calls if call.name == name]
        shown = {shows_causal(each.float().numpy(force=True)) for call in calls for each in call.weights} - {None}
        return False not in shown if shown else calls[0].is_causal is True

    def note(self, note: str) -> str:
        """Return a note for captions that begins with the names of the modules whose attention was not captured."""
        groups: dict[str, list[str]] = {}
        for name in self.unseen:
            groups.setdefault(re.sub(r"\d+", "*", name), []).append(name or "the module itself")
        names = [each[0] if len(each) == 1 else f"{pattern} ({len(each)} modules)" for pattern, each in groups.items()]
        return f"Not shown, because it was not captured: attention in {', '.join(names)}. {note}" if names else note


@contextmanager
def capture(
    module: nn.Module,
    *,
    names: Collection[str] | None = None,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    device: torch.device | str | None = None,
) -> Iterator[Captured]:
    """Capture the attention weights inside a module.

    The function captures `nn.MultiheadAttention`, `multi_head_attention_forward`, `scaled_dot_product_attention`,
    `flex_attention`, `varlen_attn`, the functions of the package `flash_attn`, the attention functions of `transformers`, and
    regard's own mechanisms. If the module contains none of regard's mechanisms, it also captures the result of each softmax, or
    of each division by a sum over an axis, if this axis is then summed over in a product with another tensor, such as the
    values.

    Weights are recorded before dropout, under the name of the innermost module that computed them. The weights of fused kernels
    are computed again from their arguments, some rows at a time, and compared with the output of a kernel other than
    `scaled_dot_product_attention`; the weights of `nn.MultiheadAttention` come from a second call. An observation that fails
    raises nothing inside the module, and a warning follows when the context ends. Then, even after an exception, the module is
    restored. `Captured.unseen` and the note of a record name modules whose attention was not recognised.

    The memory that a capture needs is that of the weights that are kept, 4·B·H·R·K bytes for R rows of each module in float32,
    and at most 16 million weights at a time while they are computed. Modules that compute whole matrices themselves (a softmax,
    `eager` attention, regard's mechanisms) need their own memory for them.

    The module's results stay bit-identical, with one exception: regard's mechanisms and, in evaluation mode,
    `nn.MultiheadAttention` and PyTorch's encoders don't take their fast paths, which compute no weights. Their results can then
    differ by rounding, and an encoder of PyTorch with a padding mask does not set its outputs at the padding to zero.

    Args:
        module: Any PyTorch module.
        names: Names of the modules whose weights are kept, or patterns such as `encoder.layer.0.*`; None for all.
        heads: Indices of the heads that are kept, from 0; None for all.
        rows: Indices of the queries whose weights are kept, from 0, or from −1 for the last; None for all.
        device: Device on which the weights are kept, such as `cpu`; None for that of the module.

    Yields:
        The weights captured so far.

    Raises:
        RequestError: If a part whose weights would be kept is compiled or scripted, no module matches one of `names`, a module
            has too few heads or queries for `heads` or `rows`, or no attention was captured.
        ConfigError: If `names`, `heads` or `rows` has the wrong type or is out of range.
    """
    observer = Observer(module, Selection(names, heads, rows, device))
    ours = [part for part in observer.names if isinstance(part, Attention)]
    caught, watch = Captured(observer), Watch(observer, products=not ours)
    with ExitStack() as stack:
        stack.callback(observer.names.clear)  # the weights may be kept for longer than the module
        for part in ours:

            def take(observation: Observation, part: Attention = part) -> None:
                observer.take(observer.name_of(part), observation.weights, observation.within)

            stack.enter_context(part.observe(take))
        stack.enter_context(observer.hooks())
        stack.enter_context(seen_interfaces())
        stack.enter_context(watch)
        yield caught
    watch.close()
    for error in observer.errors:
        if isinstance(error, RegardError):
            raise error
    if observer.errors:
        error = observer.errors[0]
        warnings.warn(
            f"capture: the attention of {', '.join(observer.missed)} was not captured, because of an error: "
            f"{type(error).__name__}: {error}",
            stacklevel=3,
        )
    if not caught.calls:
        raise RequestError(
            f"capture: no attention was captured in this {type(module).__name__}: run it inside `with capture(module)`. "
            "Captured are nn.MultiheadAttention, regard's mechanisms, scaled_dot_product_attention, other known kernels, and "
            "products of a softmax and values, unless a function was compiled: then run inside "
            f"torch.compiler.set_stance('force_eager'). {caught.note('')}".strip()
        )


def _family(call: Call, *, has_target: bool, is_causal: bool, only_causal: bool) -> str:
    if call.within is False:
        return "cross"
    if not has_target:
        return "decoder" if only_causal else "encoder"
    if "decoder" not in call.name.lower():
        return "encoder"
    return "decoder" if call.within or is_causal else "cross"
