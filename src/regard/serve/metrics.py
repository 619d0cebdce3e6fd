"""Counters of the service, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The counters of the service, in a separate registry."""

    def __init__(self) -> None:
        # Prometheus's global registry would refuse the same names for a second service in a process.
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("regard_requests", "Answered requests.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "regard_request_seconds", "Seconds until an answer is complete.", ["route"], buckets=_SECONDS, registry=registry
        )
        self.texts = Counter("regard_texts", "Texts that a model processed.", ["model"], registry=registry)
        self.characters = Counter("regard_characters", "Characters that a model processed.", ["model"], registry=registry)
        self.waiting = Gauge("regard_waiting_texts", "Texts that wait for a model.", ["model"], registry=registry)
        self.batch_texts = Histogram(
            "regard_batch_texts", "Number of texts in a batch.", ["model"], buckets=(1, 2, 4, 8, 16, 32, 64), registry=registry
        )
        self.batch_seconds = Histogram(
            "regard_batch_seconds", "Seconds to process a batch.", ["model"], buckets=_SECONDS, registry=registry
        )
        self.reloads = Counter("regard_reloads", "Attempts to load a newer model.", ["model", "result"], registry=registry)

    def render(self) -> bytes:
        """Return all values in Prometheus's text format."""
        return generate_latest(self.registry)
