"""The host CPU as a `MachineSpec`: its ceilings as measured or recorded by `labkit.bench`, not a datasheet's."""

from __future__ import annotations

from labkit.machines.facts import Fact
from labkit.machines.machine_spec import PEAKS, MachineSpec

DEFAULT_RECORDING = "cpu-epyc-2cores"


def host_spec(source=None) -> MachineSpec:
    """The spec of a CPU. source: the name of a recording (None: the shipped one), a `Recording`, or `Ceilings` that were measured here.

    peak of a dtype: the best matrix product that was timed; offchip_bw: a copy far outside the caches; both are what programs got, so a model on
    them is not optimistic by a datasheet. Raises ValueError for an unknown recording, TypeError for another kind of source.
    """
    from labkit.bench import recording as recordings
    from labkit.bench.ceiling import Ceilings

    caches: dict[str, int] = {}
    if source is None or isinstance(source, str):
        source = recordings.recorded(source or DEFAULT_RECORDING)
    if isinstance(source, recordings.Recording):
        ceilings, caches, key, where, kind = (
            source.ceilings,
            source.caches,
            f"host:{source.name}",
            f"{source.name}.json: {source.machine}",
            "recorded",
        )
        name, date = source.machine, source.date
    elif isinstance(source, Ceilings):
        ceilings, key, kind = source, "host", source.copy.kind
        found = source.copy.measurement.environment
        name, date = f"{found.get('cpu', 'this machine')}, {found.get('cores', '?')} cores", ""
        where = source.copy.measurement.source or "measured on this machine by labkit.bench"
    else:
        raise TypeError(f"source = {type(source).__name__}: expected the name of a recording, a Recording, or Ceilings")
    date = (date or "2026-12")[:7]

    def fact(value, unit, note=""):
        return Fact(value, unit, "M", where, date, note, kind=kind)

    facts = {
        "who_schedules": Fact(
            "the operating system and the cores' own out-of-order hardware; caches are automatic",
            "",
            "R",
            "common knowledge of CPUs",
            date,
        )
    }
    for dtype, ceiling in ceilings.matmul.items():
        if dtype in PEAKS:
            facts[PEAKS[dtype]] = fact(
                round(ceiling.value / 1e12, 6),
                "TFLOP/s",
                f"best square product, n = {ceiling.size}, {ceiling.measurement.threads} threads",
            )
    facts["offchip_bw"] = fact(
        round(ceilings.bytes_per_s / 1e9, 4), "GB/s", f"copy of {ceilings.copy.size / 2**20:.0f} MiB, read and written bytes"
    )
    for level, size in caches.items():
        facts[f"cache_{level}".lower()] = fact(round(size / 2**20, 6), "MiB", "as the operating system reports it")
    size = _memory_gib() if kind == "measured" else None
    if size is not None:
        facts["offchip_size"] = Fact(size, "GiB", "M", "the operating system, on this machine", date, kind="measured")
    return MachineSpec(key, f"host CPU ({name})", "cpu", facts)


def _memory_gib() -> float | None:
    """Physical memory, GiB; None where the operating system does not say so in the POSIX way."""
    import os

    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 2)
    except (ValueError, AttributeError, OSError):
        return None
