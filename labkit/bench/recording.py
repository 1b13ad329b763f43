"""A recording: what Lab 1 measures on a machine, in one file that can be shared. Loaded, its numbers are of kind *recorded*."""

from __future__ import annotations

import dataclasses
import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from labkit import paths

from .caches import cache_sizes
from .ceiling import Ceilings, ceilings
from .devices import get_device
from .environment import environment_of
from .measurement import Measurement
from .operators import operator_sweep
from .store import DamagedFile, read_json, write_json
from .sweeping import Sweep

FORMAT, VERSION = "labkit.recording", 1
KEPT_SAMPLES = 31
"""Samples kept of each point: evenly spread over all that were taken, in order, so that the file stays small. The median is theirs."""
DTYPES = {"cpu": ("float32", "float64", "bfloat16"), "accelerator": ("float32", "bfloat16", "float16")}
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,60}")


@dataclass(frozen=True)
class Recording:
    """A machine's recording. name: of its file. machine: a sentence. date: day. caches: level -> bytes."""

    name: str
    machine: str
    date: str
    caches: dict[str, int]
    ceilings: Ceilings
    sweep: Sweep

    def __repr__(self) -> str:
        return f"{self.name}: {self.machine}, recorded {self.date}\n{self.ceilings!r}\n{self.sweep.state}"


def machine_sentence(device="cpu", threads: int | None = None) -> str:
    """What kind of machine this is, in words: processor or accelerator, cores, threads, PyTorch. No host, user or path."""
    place = get_device(device)
    record = environment_of(place)
    used = threads or place.num_threads
    processor = f"{record['cpu']}, {record['cores']} cores ({record['machine']}, {record['system'].split(' ')[0]})"
    accelerator = "" if place.name == "cpu" else f"{', '.join(record['accelerators']) or place.name}; host "
    return f"{accelerator}{processor}, {used} threads, PyTorch {record['torch']}"


def record(out, *, name: str, profile: str = "full", device="cpu", progress: bool | None = None) -> Path:
    """Measures sweep and ceilings and writes `out`/`name`.json; a sweep that was interrupted goes on. Returns the file.

    Raises ValueError for a name other than lower-case letters, digits, dots and dashes, and KeyboardInterrupt when interrupted (what is
    measured is kept beside the file and used by the next call).
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name {name!r}: expected lower-case letters, digits, dots and dashes, such as cpu-epyc-2cores")
    out = Path(out)
    part = out / f"{name}.part.json"
    measured = operator_sweep(profile, device=device, path=part, progress=progress)
    if not measured.complete:
        raise KeyboardInterrupt
    place = get_device(device)
    dtypes = DTYPES["cpu" if place.name == "cpu" else "accelerator"]
    roof = ceilings(device, place.num_threads, dtypes)
    content = {
        "name": name,
        "machine": machine_sentence(device),
        "date": datetime.date.today().isoformat(),
        "caches": cache_sizes() if place.name == "cpu" else {},
        "ceilings": _thin_ceilings(roof).to_json(),
        "points": [{"point": point, "measurement": _thin(m).to_json()} for point, m in measured],
    }
    path = out / f"{name}.json"
    write_json(path, {"format": FORMAT, "version": VERSION, **content})
    part.unlink(missing_ok=True)
    return path


def _thin(m: Measurement) -> Measurement:
    if len(m.samples) <= KEPT_SAMPLES:
        return m
    kept = tuple(m.samples[round(i * (len(m.samples) - 1) / (KEPT_SAMPLES - 1))] for i in range(KEPT_SAMPLES))
    return dataclasses.replace(m, samples=kept)


def _thin_ceilings(roof: Ceilings) -> Ceilings:
    def thin(ceiling):
        # The value belongs to the samples that are kept, so that it can be computed again from the file.
        kept = _thin(ceiling.measurement)
        return dataclasses.replace(ceiling, measurement=kept, value=ceiling.value * ceiling.measurement.median / kept.median)

    return Ceilings(thin(roof.copy), {dtype: thin(c) for dtype, c in roof.matmul.items()})


def load_recording(path) -> Recording:
    """Reads a file that `record` wrote; all numbers become *recorded*, with the file and the machine as their source. Raises DamagedFile."""
    path = Path(path)
    content = read_json(path, format=FORMAT, version=VERSION)
    try:
        source = f"{path.name}: {content['machine']}, {content['date']}"

        def recorded(m: Measurement) -> Measurement:
            if m.kind != "measured":
                raise DamagedFile(f"{path.name}: {m.label} is {m.kind}; a recording holds measured numbers only")
            return dataclasses.replace(m, kind="recorded", source=source)

        points = [(p["point"], recorded(Measurement.from_json(p["measurement"], path.name))) for p in content["points"]]
        roof = Ceilings.from_json(content["ceilings"], path.name)
        roof = Ceilings(
            dataclasses.replace(roof.copy, measurement=recorded(roof.copy.measurement)),
            {dtype: dataclasses.replace(c, measurement=recorded(c.measurement)) for dtype, c in roof.matmul.items()},
        )
        caches = {str(level): int(size) for level, size in content["caches"].items()}
        made = Sweep(tuple(point for point, _ in points), tuple(m for _, m in points))
        return Recording(content["name"], content["machine"], content["date"], caches, roof, made)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{path.name}: {type(error).__name__} {error}. The file is damaged; record again.") from error


def recordings() -> tuple[str, ...]:
    """Names of the recordings that ship in data/recorded/."""
    return tuple(sorted(path.stem for path in (paths.data_dir() / "recorded").glob("*.json")))


def recorded(name: str) -> Recording:
    """A shipped recording. Raises ValueError that lists them."""
    if name not in recordings():
        raise ValueError(f"no recording {name!r}; there are {', '.join(recordings()) or 'none'}. `labkit bench record` makes one")
    return load_recording(paths.data_dir() / "recorded" / f"{name}.json")
