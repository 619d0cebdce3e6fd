"""The contract between sequence-to-sequence models and the code that searches or trains them.

Search, scoring and training call a model only through the methods of `Seq2Seq`, and its decoding state only through `select`
and `keep`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Generic, Protocol, Self, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn

from regard.attention.masks import check_boolean
from regard.models.policies import Policy
from regard.records.data import Step
from regard.reweight import ReweightBySite, Sites, check_reweight
from regard.shapes import check_shape
from regard.text.symbols import PAD

Source = Integer[Tensor, "B S *P"]
"""Sources, padded with 0 at the end: ids of tokens (B,S); or the cells of images, (B,S,P) with P values for each cell."""
AttentionMaps = dict[str, Tensor]
"""Weights by site (`"cross"`, `"encoder.2"`, `"cross.3"`): (B,T,S), or (B,H,T,S) with heads. Weights of sites that begin
with `encoder` have the shape (…,S,S), and those of sites that begin with `decoder` (…,T,T). In the result of a step, the number
of hypotheses N replaces the target length: (…,N,S), and (…,N,t) for `decoder…`, with t for the number of words so far.
"""


class MapsWithLoss(dict[str, Tensor]):
    """Weights by site, and the attention's own loss, averaged over the words of the targets, which is added in training."""

    def __init__(self, weights: AttentionMaps, loss: Float[Tensor, ""]) -> None:
        super().__init__(weights)
        self.loss = loss


class DecoderState(Protocol):
    """State of a model between steps, for B sentences with N hypotheses each."""

    def select(self, beam: Int[Tensor, "B N"]) -> Self:
        """Return the state in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`.

        Only data that differ between hypotheses are copied.
        """
        ...

    def keep(self, rows: Int[Tensor, " M"]) -> Self:
        """Return the state of the sentences with the indices `rows` only, in this order."""
        ...


State = TypeVar("State", bound=DecoderState)


class Seq2Seq(nn.Module, ABC, Generic[State]):
    """A model of p(target | source), which predicts one word at a time.

    Your own model defines `read`, `decode` and `step`, and has a linear last layer, `output`. With another last layer, it
    defines `logits` and `output_weight`, too.
    """

    output: nn.Linear
    """Linear map from features to the words."""
    vocabulary: str = ""
    """Fingerprint of the vocabularies that the model was trained with; empty before training."""
    source_axes: str = "B S"
    """Axes of a source; `B S P` for a model that reads images, or that copies words."""
    copies: bool = False
    """Whether the model copies source words, so that its next words are those of an extended vocabulary (`models.copying`)."""
    sites: tuple[str, ...]
    """Names of the attention sites that `record` accepts."""
    derived: tuple[str, ...] = ()
    """Sites whose weights are computed from those of other sites, so that `reweight` does not accept their names."""
    measures: tuple[str, ...] = ()
    """Names of further values (B,N,1) of each step that `record` accepts."""
    feeds_back: bool
    """Whether a step's attention or readout is an input of the next step, so that even a known target is read in a loop."""
    packed = False
    """Whether this is a packed copy (`regard.inference.pack`), whose linear maps choose the number format of their products."""
    packed_whole = False
    """Whether the attention of the decoder is packed too, so that no module relies on autocast."""
    policy: Policy | None = None
    """Rule for how much of the source is read before each word is chosen; None for the whole source."""
    alignment_step: Step = "produce"
    """Step whose attention aligns an output word: the step that predicts the word (`produce`), or that reads it (`consume`)."""

    def forward(
        self,
        source: Source,
        target_in: Int[Tensor, "B T"],
        source_mask: Bool[Tensor, "B S"] | None = None,
        *,
        reweight: ReweightBySite | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the scores of the next word at each position of a known target: `encode`, `decode` and `logits` in one call.

        Args:
            source: Ids of the source's tokens, padded with 0 at the end; or cells of images, see `Source`.
            target_in: The start symbol, then the words of the target: position t holds the word before word t.
            source_mask: True at tokens; None if all ids except 0 (padding), or all cells, are tokens.
            reweight: Functions that replace weights, by site; see `regard.reweight`.
        """
        mask = source_mask
        if mask is None:
            words = source[..., 0] if self.copies else source
            mask = words != PAD if words.ndim == 2 else torch.ones_like(source[..., 0], dtype=torch.bool)
        features, _ = self.decode(target_in, self.encode(source, mask, reweight=reweight), reweight=reweight)
        return self.logits(features)

    def encode(
        self,
        source: Source,
        source_mask: Bool[Tensor, "B S"],
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> State:
        """Read the source, and return a state with one hypothesis per sentence (N = 1); `select` can choose more.

        Args:
            source: Ids of the source's tokens, padded with 0 at the end.
            source_mask: True at tokens.
            record: Sites whose attention is recorded; this method uses only the sites of the encoder.
            reweight: Functions that replace weights, by site (see `regard.reweight`). This method uses those for the
                encoder's sites; give the same functions to `step` and `decode`.

        Raises:
            RequestError: If `reweight` is not a mapping from names in `reweightable` to functions.
        """
        self.check_reweight(reweight)
        check_shape("source_mask", source_mask, "B S", check_shape("source", source, self.source_axes))
        check_boolean("source_mask", source_mask, "of shape (B, S)", meaning="not padding")
        return self.read(source, source_mask, Sites(record, reweight))

    def read(self, source: Source, source_mask: Bool[Tensor, "B S"], sites: Sites) -> State:
        """Return the result of `encode`; `sites` holds its arguments `record` and `reweight`."""
        raise NotImplementedError(f"{type(self).__name__} has neither a method read nor an encode of its own")

    @abstractmethod
    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        state: State,
        *,
        use_gold: Bool[Tensor, "B T"] | None = None,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B T D"], AttentionMaps]:
        """Read a whole known target, and return the features that predict the next word at each position, and the attention.

        Args:
            target_in: The start symbol, then the words of the target: position t holds the word before word t.
            state: Result of `encode`.
            use_gold: True where the word of `target_in` is fed; elsewhere, the model's best word of the previous step is fed.
                Column 0 is always gold. None to feed gold words only.
            record: Sites whose attention is returned.
            reweight: As for `encode`. A function gets the weights of all steps at once, or those of one step after another, in
                the shapes of `AttentionMaps`.
        """

    def logits(self, features: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        """Return the scores of the words before the softmax."""
        return self.output(features)

    def output_weight(self) -> tuple[Float[Tensor, "V D"], Float[Tensor, " V"] | None]:
        """Return weight and bias of the map that `logits` applies, so that a loss need not store all logits at once."""
        return self.output.weight, self.output.bias

    @abstractmethod
    def step(
        self,
        tokens: Int[Tensor, "B N"],
        state: State,
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B N V"], AttentionMaps, State]:
        """Feed one word to each hypothesis, and return the scores of the next word, the attention, and the next state.

        Args:
            tokens: Ids of the words that are fed.
            state: Result of `encode`, or of the previous step.
            record: Sites whose attention is returned.
            reweight: As for `encode`.
        """

    @torch.no_grad()
    def draft(
        self, target_in: Int[Tensor, "B T"], state: State, use_gold: Bool[Tensor, "B T"], reweight: ReweightBySite | None
    ) -> Int[Tensor, "B T"]:
        """Return the words to feed: at each position, the gold word or the model's best word of the previous step."""
        # No gradient flows through the choice of words, so all words are chosen first, without dropout. The result is then used
        # like any known target (scheduled sampling).
        fed, rows = target_in.clone(), torch.arange(len(target_in), device=target_in.device)
        if fed.device.type == "cpu":  # sentences with only gold words are skipped; other devices would wait for their number
            rows = (~use_gold[:, 1:]).any(dim=1).nonzero()[:, 0]
            if not len(rows):
                return fed
            state = state.keep(rows)
        words, gold, training = fed[rows], use_gold[rows], self.training
        self.eval()
        try:
            for position in range(1, words.shape[1]):
                logits, _, state = self.step(words[:, position - 1, None], state, reweight=reweight)
                best = logits[:, 0].argmax(dim=-1)
                words[:, position] = torch.where(gold[:, position] | (words[:, position] == PAD), words[:, position], best)
        finally:
            self.train(training)
        fed[rows] = words
        return fed

    @property
    def reweightable(self) -> tuple[str, ...]:
        """Names that `reweight` accepts: sites, and `cross`, `encoder` or `decoder` for all layers of a kind."""
        used = [site for site in self.sites if site not in self.derived]
        return tuple(dict.fromkeys([*used, *(site.partition(".")[0] for site in used)]))

    def check_reweight(self, reweight: ReweightBySite | None) -> None:
        """Check that all functions are for sites of this model; every `encode`, `decode` and `step` calls this method."""
        if reweight is not None:
            check_reweight(reweight, self.reweightable)
