"""All limits of the service."""

from regard.config.fields import Count, NotNegative, Positive
from regard.config.settings import Settings
from regard.errors import ConfigError


class Limits(Settings):
    """Limits of the service."""

    body_bytes: Count = 1 << 20
    """Maximum size of a request's body in bytes."""
    body_seconds: Positive = 10.0
    """Maximum time in seconds that a client may take to send its first headers, and again for the body of each request."""
    connections: Count = 512
    """Maximum number of open connections; beyond it, those that have waited longest for their clients are closed."""
    texts: Count = 64
    """Maximum number of texts in a request."""
    characters: Count = 5000
    """Maximum number of characters of a text."""
    attention_characters: Count = 1000
    """Maximum number of characters of a text whose attention is requested."""
    image_characters: Count = 700_000
    """Maximum number of characters of an image, which is sent as text (Base64)."""
    attention_weights: Count = 500_000
    """Maximum number of attention weights in the answer for a text."""
    beam: Count = 16
    """Maximum beam size."""
    samples: Count = 16
    """Maximum number of samples of a prompt."""
    tokens: Count = 500
    """Largest `max_length` (maximum number of tokens of an output) that a request may set."""
    work: Count = 500_000_000
    """Maximum work of a request, Σ hypotheses × steps × (characters + steps) over its texts; steps: at most `max_length`."""
    batch_work: Count = 50_000_000
    """Maximum work of several texts in a batch; further texts of a request wait behind those of other requests."""
    queue: Count = 512
    """Maximum number of texts that wait for a model; further requests get status 429."""
    batch: Count = 32
    """Maximum number of texts in a batch."""
    window_ms: NotNegative = 5.0
    """Time in milliseconds that an idle model waits for further texts after the first one."""
    deadline_seconds: Positive = 30.0
    """Maximum time in seconds until an answer is complete; after that, the request gets status 504."""

    def __post_init__(self) -> None:
        if self.texts > self.queue:
            raise ConfigError(
                f"limits.texts is {self.texts}, more than limits.queue, {self.queue}: such a request could never be accepted"
            )


DEFAULT_LIMITS = Limits()
