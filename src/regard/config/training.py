"""Settings of training and of distillation, and of the search for translations."""

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from regard.config.fields import BelowOne, Count, Natural, NotNegative, Positive, Probability, Role
from regard.config.settings import Settings
from regard.plurals import counted

SearchPrecision = Literal["float32", "bfloat16", "int8"]
"""Number format of matrix products in a search for translations."""


# Largest weight decay for `adam`. With 0.1, a Transformer learns nothing except the frequencies of words.
_MOST_L2 = 0.05


class ScheduleSettings(Settings):
    """Settings of all schedules."""

    kind: str = ""
    warmup_steps: Natural = 0
    """Number of updates over which the learning rate rises linearly from zero."""


class ConstantConfig(ScheduleSettings, kind="constant"):
    """The same learning rate throughout, after the warm-up."""


class InverseSquareRootConfig(ScheduleSettings, kind="inverse_square_root"):
    """A learning rate proportional to 1/√step after the warm-up (Vaswani et al. 2017)."""

    warmup_steps: Natural = 4000


class FallingSettings(ScheduleSettings):
    """Settings of schedules that fall from the peak to a last value."""

    final: Probability = 0.0
    """Last learning rate, as a share of the peak."""


class CosineConfig(FallingSettings, kind="cosine"):
    """A learning rate that falls along half a cosine, from the peak after the warm-up to `final` times the peak at the end."""


class LinearDecayConfig(FallingSettings, kind="linear_decay"):
    """A learning rate that falls linearly, from the peak after the warm-up to `final` times the peak at the end."""


class PlateauConfig(ScheduleSettings, kind="plateau"):
    """A constant learning rate that is multiplied by `factor` after more than `patience` validations without improvement."""

    factor: Annotated[float, Gt(0), Lt(1)] = 0.5
    """Factor by which the learning rate is multiplied."""
    patience: Natural = 1
    """Maximum number of consecutive validations without improvement; one more reduces the learning rate."""
    minimum: NotNegative = 1e-6
    """Smallest value to which the learning rate is reduced."""


ScheduleConfig = ConstantConfig | InverseSquareRootConfig | CosineConfig | LinearDecayConfig | PlateauConfig


class TeacherForcingConfig(Settings):
    """Probability that the decoder reads the gold word, not its own prediction (Williams & Zipser 1989; Bengio et al. 2015)."""

    unit: Literal["sentence", "token"] = "sentence"
    """Whether to choose between gold words and predictions once for each sentence, or for each token (scheduled sampling)."""
    start: Probability = 1.0
    """Probability of the gold word at the first update."""
    end: Probability = 1.0
    """Probability of the gold word at the last update."""
    decay: Literal["linear", "exponential", "sigmoid"] = "linear"
    """Shape of the curve along which the probability changes from `start` to `end`."""


class NoConsistencyConfig(Settings, kind="none"):
    """One pass over each batch."""


class RDropConfig(Settings, kind="r_drop"):
    """R-Drop: two passes over each batch with different dropout learn to predict the same (Liang et al. 2021)."""

    weight: NotNegative = 5.0
    """Weight α of the divergence of the two passes, as in eq. 4 of the paper, whose loss is twice this one."""


class SimCutConfig(Settings, kind="sim_cut"):
    """SimCut: a second pass, in which some tokens are hidden, learns to predict the same as the first (Gao et al. 2022)."""

    weight: NotNegative = 3.0
    """Weight α of the divergence of the two passes, as in eq. 3 of the paper."""
    cut: BelowOne = 0.05
    """Probability that a token is hidden: zeros replace its embedding."""


ConsistencyConfig = NoConsistencyConfig | RDropConfig | SimCutConfig


class TrainingConfig(Settings):
    """Settings of training for all tasks: length, batches, optimizer and checkpoints."""

    max_epochs: Annotated[Count, Role.ADJUSTABLE] = 10
    """Maximum number of passes over the training data."""
    max_steps: Annotated[Natural, Role.ADJUSTABLE] = 0
    """Maximum number of updates; 0 for no limit."""
    max_minutes: Annotated[NotNegative, Role.ADJUSTABLE] = 0.0
    """Maximum time of training in minutes, including validations; 0 for no limit."""
    batch_tokens: Annotated[int, Ge(1), Le(1 << 20)] = 4096
    """Maximum number of tokens in a batch, including padding; a longer text forms a batch of its own. For translation, the side
    with more tokens counts.
    """
    batch_sentences: Natural = 0
    """Maximum number of sentences or texts in a batch; 0 for no limit."""
    accumulate: Count = 1
    """Number of batches per update."""
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    """Optimizer. `muon` makes steps of equal length in all directions of a hidden matrix (Jordan et al. 2024), and uses
    AdamW for embeddings, the output layer, vectors such as biases, and recurrent layers. With `muon`, a Transformer needs half
    as many updates as with `adam`; set two to four times the learning rate.
    """
    learning_rate: Annotated[Positive, Role.ADJUSTABLE] = 1e-3
    """Peak learning rate of the schedule."""
    betas: tuple[BelowOne, BelowOne] = (0.9, 0.999)
    """Decay rates of the running averages of gradients and of squared gradients."""
    weight_decay: Annotated[NotNegative, Role.ADJUSTABLE] = 0.0
    """Weight decay λ of matrices (vectors, such as biases, have none). `adamw` and `muon` subtract learning rate · λ · weight
    from each weight; `adam` adds λ · weight to the gradient. With `adam`, λ above 0.05 is an error, because the model would
    learn nothing.
    """
    schedule: Annotated[ScheduleConfig, Role.ADJUSTABLE] = field(default_factory=ConstantConfig)
    """How the learning rate changes during training."""
    clip_norm: Annotated[NotNegative, Role.ADJUSTABLE] = 1.0
    """Maximum norm of the gradient; 0 for no clipping."""
    max_skipped: Annotated[Natural, Role.ADJUSTABLE] = 10
    """Maximum number of skipped updates between two validations; with more, the run ends with an error. An update is skipped if
    its loss or gradient is not finite.
    """
    label_smoothing: Annotated[BelowOne, Role.ADJUSTABLE] = 0.0
    """Share of the target probability that the loss distributes evenly over all words or labels; 0 for none."""
    consistency: Annotated[ConsistencyConfig, Role.ADJUSTABLE] = field(default_factory=NoConsistencyConfig)
    """Whether the model reads each batch twice and learns to predict the same both times, against overfitting on little data:
    `none`, `r_drop` or `sim_cut`. An update takes twice as long.
    """
    bpe_dropout: Annotated[BelowOne, Role.ADJUSTABLE] = 0.0
    """Probability with which a merge of subwords is left out, so that a text is split in other ways in each epoch (Provilkov et
    al. 2020); 0 for none. It needs a tokenizer of kind `bpe`. Losses are divided by the number of usual tokens.
    """
    precision: Annotated[Literal["auto", "float32", "bfloat16", "float16"], Role.ADJUSTABLE] = "auto"
    """Number format of the forward pass; `auto` chooses bfloat16 where it is fast, float16 (with a scaled loss) on other GPUs
    from compute capability 7.0 on, else float32.
    """
    cuda_graphs: Annotated[bool, Role.ADJUSTABLE] = True
    """Whether to record the operations of an update on a GPU once for each shape of a batch, and then replay them, so that the
    GPU waits less for the CPU. It has an effect only for regard's own translators and language models, if they train in one
    process, always read gold words, and have no loss on attention weights (`data.alignments`, `coverage`).
    """
    compile_layers: Annotated[bool, Role.ADJUSTABLE] = False
    """Whether to compile the layers of a Transformer for training (`torch.compile`), which takes a minute or more at the start
    and needs a C++ compiler. It pays for large models on a GPU.
    """
    recompute_layers: Annotated[bool, Role.ADJUSTABLE] = False
    """Whether to keep only the input of each layer of a Transformer, and to compute the layer again for its gradient: less
    memory, a third more computation, and no CUDA graphs (Chen et al. 2016, activation checkpointing).
    """
    deterministic: Annotated[bool, Role.ADJUSTABLE] = True
    """Whether a GPU uses deterministic operations where PyTorch has them, so that a resumed run ends with the same bits. The
    run reports operations without a deterministic form. With several GPUs, the gradient of fused attention may still vary.
    """
    validate_every: Annotated[Natural, Role.ADJUSTABLE] = 0
    """Number of updates between two validations; 0 to validate after each epoch."""
    monitor: str = "loss"
    """Score that decides which checkpoint is the best; if scores are equal, the lower loss decides."""
    patience: Annotated[Natural, Role.ADJUSTABLE] = 0
    """Number of consecutive validations without improvement after which training stops and keeps the weights of the best
    validation; 0 to never stop early.
    """
    average_last: Natural = 0
    """Number of validations, counted from the end of the run, whose weights are averaged for the final model; 0 for the weights
    of the best validation, 1 for those of the last. If `patience` ends the run, the best weights are kept instead.
    """
    ema_decay: BelowOne = 0.0
    """Decay of an exponential moving average of the weights; the average is validated and saved. 0 for no average."""
    checkpoint_every: Annotated[Natural, Role.ADJUSTABLE] = 0
    """Number of updates between two checkpoints, in addition to those after each epoch; 0 for no additional checkpoints."""
    tensorboard: Annotated[bool, Role.ADJUSTABLE] = True
    """Whether to write TensorBoard logs in addition to CSV files."""
    track: Annotated[tuple[Literal["wandb", "mlflow", "trackio"], ...], Role.ADJUSTABLE] = ()
    """Libraries that also get the rows of the logs and the changed settings: `wandb` (Weights & Biases), `mlflow`, `trackio`.
    By default, nothing is sent. The environment variables of each library decide where the data go.
    """
    track_project: Annotated[str, Role.ADJUSTABLE] = "regard"
    """Project of these libraries in which the run appears, under the name of its folder."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield a conflict if the weight decay is too large for the optimizer."""
        if self.optimizer == "adam" and self.weight_decay > _MOST_L2:
            yield (
                "training.weight_decay",
                f"training.weight_decay is {self.weight_decay:g}, which is too large for adam: the model would learn "
                "nothing; set training.optimizer to adamw, or weight_decay to 0",
            )


class DistillationConfig(Settings):
    """Training on the word probabilities of trained models, the teachers (Hinton et al. 2015; Kim & Rush 2016)."""

    teachers: tuple[str, ...] = ()
    """Folders of the teachers, whose probabilities are averaged (`--distill`). The run uses their vocabulary. Empty: no
    teachers.
    """
    weight: Probability = 0.5
    """Weight λ of the teachers in the loss: (1 − λ)·(loss on the gold words) + λ·(loss on the teachers' probabilities)."""
    words: Annotated[int, Ge(1), Le(1000)] = 8
    """Number of words per target token whose probabilities are learned from the teachers: the most probable ones."""


def describe_length_conflict(min_length: int, max_length: int) -> str:
    """Return a message if `max_length` is too small for `min_length` tokens and the end symbol; else an empty text."""
    if not max_length or min_length < max_length:  # 0: the search chooses the limit
        return ""
    return (
        f"min_length is {min_length} tokens, but max_length is {max_length:,} tokens including the end symbol; raise "
        "max_length or lower min_length"
    )


class DecodingConfig(Settings):
    """Default settings for the search for translations; commands can override them."""

    beam_size: Annotated[int, Ge(1), Le(1000)] = 5
    """Number of hypotheses in the beam; 1 for greedy search."""
    length_penalty: Annotated[float, Ge(0), Le(10)] = 1.0
    """Exponent α in the score of a translation, (log p + r·length) / ((5 + length) / 6)^α (Wu et al. 2016, eq. 14), with r =
    `length_reward`; 0 for no penalty.
    """
    length_reward: Annotated[float, Ge(0), Le(100)] = 0.0
    """Reward for each token in the score of a translation, in nats (He et al. 2016); 0 for no reward. To use it instead of a
    length penalty, try 0.5 to 1 and set `length_penalty` to 0.
    """
    max_length: Natural = 0
    """Maximum number of tokens of a translation, including the end symbol; 0 for 2·(source tokens) + 20, at most 500, or more
    if a prefix, constraints or `min_length` need it.
    """
    min_length: Natural = 0
    """Minimum number of tokens of a translation, without the end symbol."""
    no_repeat_ngrams: Annotated[int, Ge(0), Le(100)] = 0
    """Number n: no sequence of n tokens occurs twice in a translation; 0 for no restriction."""
    repetition_penalty: Annotated[float, Ge(1), Le(100)] = 1.0
    """Factor θ ≥ 1 that multiplies the log probabilities of tokens that already occur in the translation, which makes them less
    probable; 1 for no penalty.
    """
    suppress_unknown: bool = False
    """If True, the unknown symbol is never produced."""
    groups: Count = 1
    """Number of groups of a diverse beam search (Vijayakumar et al. 2018), a divisor of `beam_size`; 1 for an ordinary
    search.
    """
    diversity: Annotated[float, Ge(0), Le(100)] = 0.5
    """With several `groups`: penalty of a token, in nats, for each hypothesis of an earlier group that chose the
    same token at the same step.
    """
    replace_unknown: bool = False
    """Whether to replace an unknown symbol with the source word that gets the most attention (Luong et al. 2015b)."""
    batch_tokens: Annotated[int, Ge(0), Le(1 << 20)] = 0
    """Maximum of (source tokens of a batch, including padding) × (beam size); a longer sentence forms a batch of its own. 0 for
    8,192, or as many as a GPU has MiB of memory, rounded down to a power of two.
    """
    precision: SearchPrecision = "float32"
    """Number format of matrix products. For many sentences, `bfloat16` is faster on processors with AMX or AVX-512 BF16, and
    `int8` (in the decoder) on CPUs with VNNI. With both, a few words of the translations differ.
    """

    def describe(self) -> str:
        """Describe the search in one line: beam, length penalty, length reward, restrictions and number format."""
        groups = f" in {self.groups} groups (diversity {self.diversity:g})" if self.groups > 1 else ""
        parts = ["greedy" if self.beam_size == 1 else f"beam {self.beam_size}{groups}, length penalty {self.length_penalty:g}"]
        if self.length_reward:
            parts.append(f"length reward {self.length_reward:g}")
        if self.min_length:
            parts.append(f"at least {counted(self.min_length, 'token')}")
        if self.max_length:
            parts.append(f"at most {counted(self.max_length, 'token')}")
        if self.no_repeat_ngrams:
            parts.append(f"no repeated {self.no_repeat_ngrams}-grams")
        if self.repetition_penalty > 1:
            parts.append(f"repetition penalty {self.repetition_penalty:g}")
        if self.suppress_unknown:
            parts.append("no unknown symbols")
        if self.replace_unknown:
            parts.append("unknown words replaced")
        if self.precision != "float32":
            parts.append(self.precision)
        return ", ".join(parts)
