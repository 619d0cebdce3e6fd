"""Which attention a model uses. The formulas stand in `regard.attention`, beside the code."""

from dataclasses import dataclass
from typing import Literal

from regard.config.settings import Settings


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig(Settings):
    """v·tanh(W_q q + W_k k) (Bahdanau et al. 2015)."""

    kind: Literal["additive"] = "additive"
    attention_size: int = 0
    """Width of the tanh layer; 0 for the query's width."""
    bias: bool = False
    """Whether the key projection has a bias."""


@dataclass(frozen=True, kw_only=True)
class DotConfig(Settings):
    """q·k (Luong et al. 2015, eq. 8); query and key of one width."""

    kind: Literal["dot"] = "dot"
    scaled: bool = False
    """Divide by √width (Vaswani et al. 2017)."""


@dataclass(frozen=True, kw_only=True)
class GeneralConfig(Settings):
    """k·(W q) (Luong et al. 2015, eq. 8)."""

    kind: Literal["general"] = "general"


@dataclass(frozen=True, kw_only=True)
class ConcatConfig(Settings):
    """v·tanh(W [q; k]), as the paper has it (Luong et al. 2015, eq. 8)."""

    kind: Literal["concat"] = "concat"
    attention_size: int = 0
    """Width of the tanh layer; 0 for the query's width."""


@dataclass(frozen=True, kw_only=True)
class SumConcatConfig(Settings):
    """v·tanh(W (q + k)), as a well-known tutorial has Luong's concat; query and key of one width."""

    kind: Literal["sum_concat"] = "sum_concat"
    attention_size: int = 0


@dataclass(frozen=True, kw_only=True)
class LinearConfig(Settings):
    """w·[q; k] + b: the query's part cancels in the softmax, so the weights do not depend on it (kept for `tutorial-gru`)."""

    kind: Literal["linear"] = "linear"


AttentionConfig = AdditiveConfig | DotConfig | GeneralConfig | ConcatConfig | SumConcatConfig | LinearConfig
