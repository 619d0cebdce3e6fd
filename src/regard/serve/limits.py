"""All limits of the service."""

from dataclasses import dataclass, fields

from regard.config.settings import Settings
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Limits(Settings):
    """Limits of the service.

    Raises:
        ConfigError: If a limit is not more than 0 (`window_ms` may be 0), or `texts` is more than `queue`.
    """

    body_bytes: int = 1 << 20
    """Maximum size of a request's body in bytes."""
    body_seconds: float = 10.0
    """Maximum time in seconds that a client may take to send its first headers, and again for the body of each request."""
    connections: int = 512
    """Maximum number of open connections; beyond it, those that have waited longest for their clients are closed."""
    texts: int = 64
    """Maximum number of texts in a request."""
    characters: int = 5000
    """Maximum number of characters of a text."""
    attention_characters: int = 1000
    """Maximum number of characters of a text whose attention is requested."""
    attention_weights: int = 500_000
    """Maximum number of attention weights in the answer for a text."""
    beam: int = 16
    """Maximum beam size."""
    samples: int = 16
    """Maximum number of samples of a prompt."""
    tokens: int = 500
    """Largest `max_length` (maximum number of tokens of an output) that a request may set."""
    work: int = 500_000_000
    """Maximum work of a request, Σ hypotheses × steps × (characters + steps) over its texts; steps: at most `max_length`."""
    batch_work: int = 50_000_000
    """Maximum work of several texts in a batch; further texts of a request wait behind those of other requests."""
    queue: int = 512
    """Maximum number of texts that wait for a model; further requests get status 429."""
    batch: int = 32
    """Maximum number of texts in a batch."""
    window_ms: float = 5.0
    """Time in milliseconds that an idle model waits for further texts after the first one."""
    deadline_seconds: float = 30.0
    """Maximum time in seconds until an answer is complete; after that, the request gets status 504."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not 0 < value < float("inf") and not (item.name == "window_ms" and value == 0):
                raise ConfigError(f"limits.{item.name} is {value}, expected more than 0")
        if self.texts > self.queue:
            raise ConfigError(
                f"limits.texts is {self.texts}, more than limits.queue, {self.queue}: such a request could never be accepted"
            )


DEFAULT_LIMITS = Limits()
