"""How a model is trained, and how its output is searched for."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ConstantConfig(Settings):
    """The same learning rate throughout, after the warm-up."""

    kind: Literal["constant"] = "constant"
    warmup_steps: int = 0
    """Updates over which the rate grows linearly from zero."""


@dataclass(frozen=True, kw_only=True)
class InverseSquareRootConfig(Settings):
    """Proportional to 1/√step after the warm-up (Vaswani et al. 2017)."""

    kind: Literal["inverse_square_root"] = "inverse_square_root"
    warmup_steps: int = 4000
    """Updates over which the rate grows linearly from zero."""


@dataclass(frozen=True, kw_only=True)
class CosineConfig(Settings):
    """A half cosine from the peak down to `final` of it, over all the run's updates."""

    kind: Literal["cosine"] = "cosine"
    warmup_steps: int = 0
    """Updates over which the rate grows linearly from zero."""
    final: float = 0.0
    """The last rate as a part of the peak."""


@dataclass(frozen=True, kw_only=True)
class LinearDecayConfig(Settings):
    """A straight line from the peak down to `final` of it, over all the run's updates."""

    kind: Literal["linear_decay"] = "linear_decay"
    warmup_steps: int = 0
    """Updates over which the rate grows linearly from zero."""
    final: float = 0.0
    """The last rate as a part of the peak."""


@dataclass(frozen=True, kw_only=True)
class PlateauConfig(Settings):
    """Multiply by `factor` when the validation has not improved for `patience` validations."""

    kind: Literal["plateau"] = "plateau"
    warmup_steps: int = 0
    """Updates over which the rate grows linearly from zero."""
    factor: float = 0.5
    """Number that the rate is multiplied by."""
    patience: int = 1
    """Number of validations without an improvement before that."""
    minimum: float = 1e-6
    """The lowest rate."""


ScheduleConfig = ConstantConfig | InverseSquareRootConfig | CosineConfig | LinearDecayConfig | PlateauConfig


@dataclass(frozen=True, kw_only=True)
class TeacherForcingConfig(Settings):
    """How often the decoder is fed the gold word instead of its own (Williams & Zipser 1989; Bengio et al. 2015)."""

    unit: Literal["sentence", "token"] = "sentence"
    """Draw once for each sentence, or for each token (scheduled sampling)."""
    start: float = 1.0
    """Probability of the gold word at the first update."""
    end: float = 1.0
    """Probability at the last update; in between it changes by `decay`."""
    decay: Literal["linear", "exponential", "sigmoid"] = "linear"
    """Shape of the change from `start` to `end`."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Settings):
    """Length, batches, optimizer and what is kept: what every task has."""

    max_epochs: int = 10
    """Maximum number of passes over the training data."""
    max_steps: int = 0
    """Maximum number of updates; 0 for no limit."""
    max_minutes: float = 0.0
    """Maximum time of training in minutes; 0 for no limit."""
    batch_tokens: int = 4096
    """Tokens in a batch, padding included; of a translation's two sides, whichever has more."""
    batch_sentences: int = 0
    """Maximum number of sentences or texts in a batch; 0 for no limit."""
    accumulate: int = 1
    """Batches for each update."""
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    """`muon` makes steps of equal length in every direction of a hidden matrix (Jordan et al. 2024), with AdamW for embeddings,
    output and biases: Transformers need half the updates; at two to four times Adam's learning rate."""
    learning_rate: float = 1e-3
    """The peak of the schedule."""
    betas: tuple[float, float] = (0.9, 0.999)
    """How much of the averages of gradients and of squared gradients each update keeps."""
    weight_decay: float = 0.0
    """What `adamw` and `muon` take off the weights themselves, times the learning rate. `adam` adds it, times the weights,
    to the gradient, where 0.1 is so much that nothing is learned."""
    schedule: ScheduleConfig = field(default_factory=ConstantConfig)
    """How the learning rate changes during training."""
    clip_norm: float = 1.0
    """Largest norm of the gradient; 0 for no clipping."""
    max_skipped: int = 10
    """Updates whose loss or gradient is not finite are skipped; more of them than this between two validations end the run."""
    label_smoothing: float = 0.0
    """Share of the probability that the loss expects to be spread over all choices; 0 for none."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """`auto`: bfloat16 where the machine computes faster in it."""
    validate_every: int = 0
    """Updates between validations; 0 for once an epoch."""
    monitor: str = "loss"
    """Which figure says what the best checkpoint is."""
    patience: int = 0
    """Number of validations without improvement after which training stops; 0 to never stop early."""
    average_last: int = 0
    """Average the weights of the last so many validations into the final model; 0 keeps the best checkpoint, and 1 the last."""
    ema_decay: float = 0.0
    """Validate and keep an exponential moving average of the weights; 0 for none."""
    checkpoint_every: int = 0
    """Updates between checkpoints besides those after each epoch; 0 for none."""
    tensorboard: bool = True
    """Write TensorBoard logs beside the CSV ones."""


@dataclass(frozen=True, kw_only=True)
class DecodingConfig(Settings):
    """How translations are searched for, unless a command says otherwise."""

    beam_size: int = 5
    """1 is greedy."""
    length_penalty: float = 1.0
    """α of the score (log p + r·length) / ((5 + length) / 6)^α (Wu et al. 2016, eq. 14); 0 for none."""
    length_reward: float = 0.0
    """r of that score, in nats (He et al. 2016); 0 for none. Some 0.5 to 1 does in place of a penalty: set that to 0 then."""
    max_length: int = 0
    """Maximum number of tokens of a translation, the end symbol included; 0 for 2·source + 20, never more than 500."""
    min_length: int = 0
    """Minimum number of tokens of a translation, the end symbol not included."""
    no_repeat_ngrams: int = 0
    """n: no sequence of n tokens occurs twice in a translation; 0 for no restriction."""
    repetition_penalty: float = 1.0
    """θ ≥ 1: log probabilities of tokens that the translation already has are multiplied by it; 1 for no penalty."""
    suppress_unknown: bool = False
    """If True, the unknown symbol is never produced."""
    groups: int = 1
    """Number of groups of a diverse beam search (Vijayakumar et al. 2018), which divides `beam_size`; 1 for an ordinary one."""
    diversity: float = 0.5
    """Cost, in nats, of each choice of the same token by an earlier group."""
    replace_unknown: bool = False
    """Put the source word most attended to in place of an unknown symbol (Luong et al. 2015b)."""
    batch_tokens: int = 8192
    """Source tokens, padding included, times beam size, decoded at once."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products. bfloat16 is faster on processors that support it, and rarely changes a word."""

    def describe(self) -> str:
        """Describe the search in one line: beam, penalty, reward and restrictions."""
        groups = f" in {self.groups} groups" if self.groups > 1 else ""
        parts = ["greedy" if self.beam_size == 1 else f"beam {self.beam_size}{groups}, length penalty {self.length_penalty:g}"]
        if self.length_reward:
            parts.append(f"length reward {self.length_reward:g}")
        if self.min_length:
            parts.append(f"at least {self.min_length} tokens")
        if self.no_repeat_ngrams:
            parts.append(f"no repeated {self.no_repeat_ngrams}-grams")
        if self.repetition_penalty > 1:
            parts.append(f"repetition penalty {self.repetition_penalty:g}")
        if self.suppress_unknown:
            parts.append("no unknown symbols")
        return ", ".join(parts)
