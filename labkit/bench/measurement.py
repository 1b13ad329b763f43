"""`Measurement`: raw samples that know what they are, where they come from, and how to show themselves."""

from __future__ import annotations

import functools
import html
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from . import statistics
from .devices import Device
from .store import DamagedFile, read_json, write_json
from .units import format_seconds, time_unit

KINDS = ("measured", "recorded", "published", "modelled")
"""measured here and now; recorded by us elsewhere and stored; published by others; computed, also on a virtual clock."""

FORMAT, VERSION = "labkit.measurement", 1


@dataclass(frozen=True)
class WarmupRecord:
    """What happened before the first sample: calls made, seconds spent, whether the time had become stable, and the last time seen.

    `seconds_per_call` is the median of the last window, whose samples were `calls_per_sample` calls each.
    """

    calls: int
    seconds: float
    stable: bool
    window: int
    tolerance: float
    calls_per_sample: int = 1
    seconds_per_call: float = 0.0


@dataclass(frozen=True)
class Measurement:
    """Seconds per call, sample by sample, in the order of measurement.

    label             what was timed.
    samples           seconds per call, one number per sample, >= 0 (a sample of n calls is its time divided by n).
    kind              "measured", "recorded", "published" or "modelled". None: the kind of `device`, when that is a device.
    calls_per_sample  calls that each sample averages over.
    threads, dtype    None where they do not apply.
    device            a name, or a device, which is stored by its name. A VirtualDevice is always "modelled".
    environment       what it ran on (labkit.bench.environment_of).
    source            where a recorded or published number can be found; needed for these two.
    caveats           what a reader has to know before using the number; they travel with it.

    Raises ValueError for no samples, for a negative or non-finite one, for an unknown kind and for a missing source.
    """

    label: str
    samples: tuple[float, ...]
    kind: str | None = None
    calls_per_sample: int = 1
    threads: int | None = None
    dtype: str | None = None
    device: str | Device = "cpu"
    environment: Mapping = field(default_factory=dict)
    source: str | None = None
    caveats: tuple[str, ...] = ()
    warmup: WarmupRecord | None = None

    def __post_init__(self):
        settle = functools.partial(object.__setattr__, self)
        samples = statistics.checked_samples(self.samples)
        negative = next((i for i, sample in enumerate(samples) if sample < 0), None)
        if negative is not None:
            raise ValueError(
                f"samples[{negative}] = {samples[negative]!r}: a time is not negative. Was the clock read in the wrong order?"
            )
        settle("samples", samples)
        if not isinstance(self.label, str) or not self.label:
            raise ValueError(f"label = {self.label!r}: expected a non-empty string that says what was timed")
        settle("kind", self._settled_kind())
        if not isinstance(self.device, str):
            settle("device", self.device.name)
        for name in ("calls_per_sample", "threads"):
            count = getattr(self, name)
            if not (count is None and name == "threads") and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
                raise ValueError(f"{name} = {count!r}: expected an integer >= 1")
        if self.dtype is not None:
            settle("dtype", str(self.dtype).removeprefix("torch."))
        if self.kind in ("recorded", "published") and not self.source:
            raise ValueError(f"a {self.kind} number needs its source: say where it can be found (source=...)")
        settle("caveats", (self.caveats,) if isinstance(self.caveats, str) else tuple(self.caveats))
        settle("environment", dict(self.environment))

    def _settled_kind(self) -> str:
        own = getattr(self.device, "kind", None)
        kind = self.kind or own
        if kind is None:
            raise ValueError(f"kind is missing: say which of {', '.join(KINDS)}, or give the device itself as `device`")
        if kind not in KINDS:
            raise ValueError(f"kind = {kind!r}: expected one of {', '.join(KINDS)}")
        if own == "modelled" and kind != own:
            raise ValueError(f"kind = {kind!r}: times of the virtual device {self.device.name!r} are modelled")
        return kind

    # -- statistics, computed when asked for --

    @functools.cached_property
    def median(self) -> float:
        """Seconds per call: the number to quote."""
        return statistics.median(self.samples)

    @functools.cached_property
    def iqr(self) -> float:
        """Interquartile range, seconds."""
        return statistics.iqr(self.samples)

    @functools.cached_property
    def mean(self) -> float:
        """Seconds; moved by every outlier."""
        return statistics.mean(self.samples)

    @functools.cached_property
    def minimum(self) -> float:
        """The fastest sample, seconds."""
        return min(self.samples)

    def quantile(self, q: float) -> float:
        """The q-quantile, seconds, 0 <= q <= 1."""
        return statistics.quantile(self.samples, q)

    def median_interval(self, level: float = 0.95) -> statistics.Interval:
        """Confidence interval of the median, seconds (`statistics.median_interval`)."""
        return statistics.median_interval(self.samples, level)

    # -- for the reader --

    def _facts(self) -> list[tuple[str, str]]:
        unit = time_unit(self.median)
        count = f"{len(self.samples)} samples" if len(self.samples) > 1 else "1 sample"
        calls = f" of {self.calls_per_sample} calls" if self.calls_per_sample > 1 else ""
        spread = (
            [("IQR", format_seconds(self.iqr, unit)), ("minimum", format_seconds(self.minimum, unit))]
            if len(self.samples) > 1
            else []
        )
        known = [("dtype", self.dtype), ("threads", self.threads), ("source", self.source)]
        return [
            ("median", format_seconds(self.median, unit)),
            *spread,
            ("samples", count + calls),
            ("kind", self.kind),
            ("device", self.device),
            *((name, str(value)) for name, value in known if value is not None),
        ]

    def __repr__(self) -> str:
        (_, median), *rest = self._facts()
        lines = [f"{self.label}: {median} ({', '.join(value if name == 'samples' else f'{name} {value}' for name, value in rest)})"]
        return "\n".join(lines + [f"  caveat: {caveat}" for caveat in self.caveats])

    def _repr_html_(self) -> str:
        facts = self._facts() + [("caveat", caveat) for caveat in self.caveats]
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for name, value in facts
        )
        return f'<table><caption style="text-align:left">{html.escape(self.label)}</caption><tbody>{rows}</tbody></table>'

    # -- storing --

    def to_json(self) -> dict:
        """All fields as a JSON dict; `from_json` makes an equal Measurement of it, bit for bit."""
        content = {name.name: getattr(self, name.name) for name in fields(self)}
        content |= {
            "samples": list(self.samples),
            "caveats": list(self.caveats),
            "warmup": asdict(self.warmup) if self.warmup else None,
        }
        return {"format": FORMAT, "version": VERSION, **content}

    @classmethod
    def from_json(cls, content: Mapping, where: str = "measurement") -> Measurement:
        """The inverse of `to_json`. Raises DamagedFile, naming `where`, when a field is missing, unknown or bad."""
        given = {key: value for key, value in content.items() if key not in ("format", "version")}
        names = {item.name for item in fields(cls)}
        if set(given) != names:
            wrong = ", ".join(sorted(set(given) ^ names, key=str))
            raise DamagedFile(
                f"{where}: these fields are missing or unknown: {wrong}. The file is damaged; restore it or measure again."
            )
        try:
            if not isinstance(given["samples"], list) or not isinstance(given["environment"], dict):
                raise ValueError("samples must be a list and environment an object")
            if given["warmup"] is not None:
                given["warmup"] = WarmupRecord(**given["warmup"])
            return cls(**given)
        except (TypeError, ValueError, AttributeError) as error:
            raise DamagedFile(f"{where}: {error}. The file is damaged; restore it or measure again.") from error

    def save(self, path: str | os.PathLike) -> None:
        """Write to `path` as JSON, in one step."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike) -> Measurement:
        """Read what `save` wrote. Raises DamagedFile for a damaged file or one of a newer format, FileNotFoundError."""
        return cls.from_json(read_json(path, format=FORMAT, version=VERSION), where=str(path))
