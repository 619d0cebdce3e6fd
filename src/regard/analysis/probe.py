"""Attributions of a model of `transformers`: for the label of a classifier, or each next token of a language model."""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.analysis.reader import Reader
from regard.errors import RequestError
from regard.machine import exact_dtype
from regard.records import AttentionRecord
from regard.reweight import Reweight
from regard.tasks.attribution import UnavailableError, with_attributions
from regard.tasks.probe import Probe, embedded_between


class ModelProbe(Probe):
    """Predictions of a model for one text: a label from `logits` (1,C), or the next tokens from `logits` (1,S,V).

    Each step of a language model predicts the token after one of `rows`, which count from 0, or from −1 for the last token;
    None for all tokens.
    """

    def __init__(self, reader: Reader, output: Any, record: AttentionRecord, rows: Sequence[int] | None) -> None:
        self.model, self.reader, self.record, self.sites = reader.model, reader, record, record.sites
        ids, logits = reader.tensors.get("input_ids"), getattr(output, "logits", None)
        shape: Any = getattr(logits, "shape", ())
        is_causal = rows is not None or not record.source_tokens
        self.has_steps = len(shape) == 3 and is_causal and getattr(self.model, "can_generate", bool)()
        can_pad = getattr(reader.config, "pad_token_id", None) is not None
        is_label = len(shape) == 2 and shape[1] > 1 and rows is None and can_pad
        if ids is None or logits is None or reader.is_pair or reader.inputs.images or not (self.has_steps or is_label):
            raise RequestError(
                f"from_huggingface: attributions of {type(self.model).__name__} are not possible, expected a causal language "
                "model (AutoModelForCausalLM), or, without rows, a classifier of texts (AutoModelForSequenceClassification) "
                "with at least two labels and config.pad_token_id"
            )
        self.ids, self.num_tokens, self.num_words = ids, ids.shape[1], ids.shape[1]
        self.queries = torch.arange(self.num_tokens, device=ids.device)[slice(None) if rows is None else list(rows)]
        self.decision, self.main = logits[0].argmax(-1, keepdim=True), "pool"
        if self.has_steps:
            self.decision = torch.cat([ids[0, 1:], self.decision[-1]])[self.queries]
            self.main = "decoder" if rows is None else "cross"
        several = getattr(reader.config, "problem_type", None) == "multi_label_classification" and is_label
        self.normalise: Callable[[Tensor], Tensor]
        self.normalise = torch.nn.functional.logsigmoid if several else partial(torch.log_softmax, dim=-1)

    def keep(self, kept: Bool[np.ndarray, "B W"]) -> Float[Tensor, "B T C"]:
        """Return the predictions for the whole text."""
        if not kept.all():
            raise UnavailableError("leave_one_out: the text is always read as a whole; choose another attribution")
        return self.reweight(lambda weights, mask: weights, len(kept))

    @torch.no_grad()
    def reweight(self, reweight: Reweight, copies: int = 1) -> Float[Tensor, "B T C"]:
        """Return the predictions for copies of the text whose weights `reweight` replaces in all layers."""
        return self._logarithms(copies, reweight).exp()

    def scores(
        self, shares: Float[Tensor, " B"], reweight: Reweight | None = None
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B S E"]]:
        """Return the log probabilities of `decision`, and the embeddings; `reweight` gets the steps' own queries."""

        def change(weights: Tensor, mask: Tensor) -> Tensor:
            assert reweight is not None
            own = reweight(weights[..., self.queries, :], mask[..., self.queries, :])
            return weights.index_copy(-2, self.queries, own)

        blank = self.ids if (shares == 1).all() else self._blank()
        with embedded_between(self.model.get_input_embeddings(), blank, self.ids, shares) as embedded:
            found = self._logarithms(len(shares), change if reweight else None)
        return found[:, torch.arange(len(self.decision)), self.decision], embedded

    def weights(self, sites: Collection[str]) -> dict[str, Float[np.ndarray, "*heads R S"]]:
        if not set(sites) <= set(self.sites):
            raise UnavailableError(
                "attention and rollout: not available for this model; see the record's sites and its method rollout"
            )
        return {site: self.record.weights[site] for site in sites}

    def _blank(self) -> Tensor:
        """Return the text's ids with the unknown token in place of each token that is not special."""
        tokenizer = self.reader.tokenizer
        if tokenizer.unk_token_id is None:
            raise UnavailableError("integrated: the tokenizer has no unknown token; set tokenizer.unk_token")
        special = torch.isin(self.ids, torch.tensor(tokenizer.all_special_ids, device=self.ids.device))
        return self.ids.masked_fill(~special, tokenizer.unk_token_id)

    def _logarithms(self, copies: int, change: Reweight | None) -> Float[Tensor, "B T C"]:
        """Return the log probabilities of all classes for copies of the text, with weights replaced by `change`."""
        tensors = {name: each.expand(copies, *each.shape[1:]) for name, each in self.reader.tensors.items()}
        with ExitStack() as stack:
            if change:
                # Only the implementation `eager` computes the weights as a tensor, which `_Reweighting` can replace.
                stack.callback(self.model.set_attn_implementation, self.reader.config._attn_implementation)
                self.model.set_attn_implementation("eager")
                mode = stack.enter_context(_Reweighting(change, self.num_tokens))
            logits = self.model(**tensors, **self.reader.options).logits
        if change and mode.calls < len(self.sites):
            raise UnavailableError(
                "gradients and values: the attention of this model is not a softmax over all tokens; choose integrated"
            )
        return self.normalise((logits[:, self.queries] if self.has_steps else logits[:, None]).to(exact_dtype(logits.device)))


class _Reweighting(TorchFunctionMode):
    """Mode in which `change` replaces attention weights (B,H,S,S), which are recognised as results of softmax."""

    def __init__(self, change: Reweight, num_tokens: int) -> None:
        super().__init__()
        self.change, self.shape, self.calls = change, (num_tokens, num_tokens), 0

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") != "softmax" or output.ndim != 4 or output.shape[-2:] != self.shape:
            return output
        self.calls += 1
        return self.change(output, output > 0)


def add_attributions(
    record: AttentionRecord, reader: Reader, output: Any, rows: Sequence[int] | None, names: Sequence[str]
) -> AttentionRecord:
    """Return the record with attributions as further sites; the label of a classifier becomes the target."""
    probe = ModelProbe(reader, output, record, rows)
    if not probe.has_steps:
        shares = probe.normalise(output.logits[0].to(exact_dtype(output.logits.device))).exp().tolist()
        labels = [reader.config.id2label.get(number, f"LABEL_{number}") for number in range(len(shares))]
        label = labels[int(probe.decision)]
        target: dict[str, Any] = {"target_tokens": (label,), "target_words": (label,), "target_word_of": (0,)}
        record = replace(record, **target, target_text=label, probabilities=dict(zip(labels, shares, strict=True)))
    return with_attributions(record, probe, names)
