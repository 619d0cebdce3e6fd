"""The feed-forward part of a Transformer layer, which transforms each position separately."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_size
from regard.attention.learned import start_linear
from regard.layers.dropout import Dropout


class FeedForward(nn.Module):
    """W_2 dropout(f(W_1 x + b_1)) + b_2.

    Reference: Vaswani et al. 2017, eq. 2 (f: ReLU); Hendrycks and Gimpel 2016 (GELU).

    Args:
        size: D, ≥ 1.
        hidden_size: Width of the inner layer, ≥ 1.
        activation: The function f.
        dropout: Dropout of the inner layer, 0 ≤ dropout < 1.
    """

    def __init__(self, size: int, *, hidden_size: int, activation: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        check_size("FeedForward", "size", size)
        check_size("FeedForward", "hidden_size", hidden_size)
        self.size = size
        self.inner = nn.Linear(size, hidden_size)
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(hidden_size, size)
        start_linear(self.inner, self.outer)

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Transform each position."""
        hidden = self.activation(self.inner(x))
        return self.outer(self.dropout(hidden) if self.training else hidden)  # a module's call has its cost in a search


class GatedFeedForward(nn.Module):
    """W_2 dropout(f(V x) ⊙ W x), without biases; with f = SiLU it is SwiGLU.

    The arguments are those of `FeedForward`. For the same number of parameters, use two thirds of its `hidden_size`.

    Reference: Shazeer 2020 (GLU variants improve Transformer), eq. 6.
    """

    def __init__(self, size: int, *, hidden_size: int, activation: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        check_size("GatedFeedForward", "size", size)
        check_size("GatedFeedForward", "hidden_size", hidden_size)
        self.size = size
        self.gate = nn.Linear(size, hidden_size, bias=False)
        self.inner = nn.Linear(size, hidden_size, bias=False)
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(hidden_size, size, bias=False)
        start_linear(self.gate, self.inner, self.outer)

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Transform each position."""
        hidden = self.activation(self.gate(x)) * self.inner(x)
        return self.outer(self.dropout(hidden) if self.training else hidden)
