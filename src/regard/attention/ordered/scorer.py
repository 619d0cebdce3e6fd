"""The check of a scorer: a mechanism whose scores another mechanism, such as a local or monotonic one, uses."""

from regard.attention.arguments import check_instance, check_size
from regard.attention.scores.base import ScoredAttention
from regard.errors import ConfigError


def check_scorer(
    called: str,
    name: str,
    query_size: int,
    key_size: int | None,
    scorer: ScoredAttention | None,
    *,
    uses_weights: bool = True,
) -> ScoredAttention | None:
    """Return the scorer that a mechanism was given; None if it must build its own.

    Args:
        called: Name of the mechanism, for error messages.
        name: Name of the argument.
        query_size: Dq of the mechanism.
        key_size: Dk of the mechanism; None for the scorer's.
        scorer: The given scorer; None for none.
        uses_weights: Whether the mechanism uses the scorer's weights, too; if not, the scorer must not have dropout.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, or the given object is not a scorer, has other widths, or
            has a state or unused dropout.
    """
    check_size(called, "query_size", query_size)
    if scorer is None:
        return None
    check_instance(called, name, scorer, ScoredAttention, "Additive(256)")
    shown = f"{called}({name}={type(scorer).__name__})"
    if scorer.stateful:
        raise ConfigError(f"{shown}: expected a {name} without a state, such as General, Dot or Additive")
    if scorer.dropout and not uses_weights:
        raise ConfigError(f"{shown}: only the scores of a {name} are used, not its weights; build it without dropout")
    expected = query_size, scorer.key_size if key_size is None else key_size
    if expected != (scorer.query_size, scorer.key_size):
        raise ConfigError(
            f"{called}(query_size={expected[0]}, key_size={expected[1]}, {name}={type(scorer).__name__}(query_size="
            f"{scorer.query_size}, key_size={scorer.key_size})): build the {name} with the same widths"
        )
    return scorer
