"""What a server counts, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
IMAGES = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.total = bounds, 0.0
        self.counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> Iterator[str]:
        below = 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{bound}"}} {below}'
        yield f"{name}_sum {self.total:.6g}"
        yield f"{name}_count {below}"


class Metrics:
    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()  # by path and status
        self.images, self.under_way = 0, 0
        self.seconds, self.batches = Histogram(SECONDS), Histogram(IMAGES)

    def text(self, digest: str, waiting: int, swaps: int, failures: int) -> str:
        """All of them; the digest is that of the model that answers now."""
        by = (
            f'{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(self.requests.items())
        )
        parts: list[tuple[str, str, str, Iterable[str]]] = [
            ("requests_total", "counter", "Answered requests.", by),
            ("images_total", "counter", "Images that were classified.", [f" {self.images}"]),
            ("requests_under_way", "gauge", "Requests not answered yet.", [f" {self.under_way}"]),
            ("images_waiting", "gauge", "Images that wait for a batch.", [f" {waiting}"]),
            ("model_swaps_total", "counter", "New models picked up.", [f" {swaps}"]),
            ("model_failures_total", "counter", "New models that could not be.", [f" {failures}"]),
            ("model_info", "gauge", "The model that answers.", [f'{{model="{digest}"}} 1']),
        ]
        lines = []
        for name, kind, help_, values in parts:
            lines += [f"# HELP linsep_{name} {help_}", f"# TYPE linsep_{name} {kind}"]
            lines += [f"linsep_{name}{value}" for value in values]
        for name, help_, histogram in (
            ("request_seconds", "Seconds from a request's start to its answer.", self.seconds),
            ("batch_images", "Images in a batch.", self.batches),
        ):
            lines += [f"# HELP linsep_{name} {help_}", f"# TYPE linsep_{name} histogram"]
            lines += histogram.lines(f"linsep_{name}")
        return "\n".join(lines) + "\n"
