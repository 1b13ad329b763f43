"""`sweep`: measure at many points, show how far it is, keep what there is when it is interrupted, go on later."""

from __future__ import annotations

import html
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .devices import get_device
from .environment import environment_of
from .harness import measure
from .measurement import Measurement
from .store import DamagedFile, read_json, write_json
from .units import format_seconds

FORMAT, VERSION = "labkit.sweep", 1


class OtherEnvironment(ValueError):
    """A stored sweep that was measured elsewhere, or on other threads, than the one that is to go on."""


@dataclass(frozen=True, repr=False)
class Sweep:
    """Measurements by point, in the order of the points asked for; `remaining` are the points not measured yet."""

    points: tuple[dict, ...]
    measurements: tuple[Measurement, ...]
    remaining: tuple[dict, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every point was measured."""
        return not self.remaining

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self):
        return iter(zip(self.points, self.measurements, strict=True))

    def __getitem__(self, point: Mapping) -> Measurement:
        for known, measurement in self:
            if known == dict(point):
                return measurement
        state = "not measured yet" if dict(point) in self.remaining else "not a point of this sweep"
        raise KeyError(f"{dict(point)} is {state}")

    @property
    def state(self) -> str:
        """One line: how much of it is there."""
        total = len(self.points) + len(self.remaining)
        if self.complete:
            return f"sweep of {total} point{'' if total == 1 else 's'}, complete"
        return f"sweep interrupted: {len(self.points)} of {total} points are kept, {len(self.remaining)} remain"

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        names = list(dict.fromkeys(name for point in self.points for name in point))
        head = [*names, "median", "IQR", "samples", "kind", "caveats"]
        rows = []
        for point, m in self:
            values = [str(point.get(name, "")) for name in names]
            rows.append(
                [
                    *values,
                    format_seconds(m.median),
                    format_seconds(m.iqr),
                    str(len(m.samples)),
                    m.kind,
                    "; ".join(m.caveats) or "none",
                ]
            )
        return head, rows

    def __repr__(self) -> str:
        head, rows = self._rows()
        widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in [head, *rows]]
        return "\n".join([self.state, *(table if rows else [])])

    def _repr_html_(self) -> str:
        head, rows = self._rows()
        top = "".join(f'<th scope="col" style="text-align:left">{html.escape(name)}</th>' for name in head)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
        )
        caption = f'<caption style="text-align:left">{html.escape(self.state)}</caption>'
        return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"

    def to_frame(self):
        """A pandas DataFrame: the point's columns, then median_s, iqr_s, minimum_s, samples, kind, dtype, threads, device, caveats.

        A column that the points have themselves, such as dtype, is the points'.
        """
        import pandas

        rows = []
        for point, m in self:
            facts = {"median_s": m.median, "iqr_s": m.iqr, "minimum_s": m.minimum, "samples": len(m.samples)}
            facts |= {"kind": m.kind, "dtype": m.dtype, "threads": m.threads, "device": m.device, "caveats": "; ".join(m.caveats)}
            rows.append({**point, **{name: value for name, value in facts.items() if name not in point}})
        return pandas.DataFrame(rows)


def sweep(
    points: Iterable[Mapping],
    make: Callable,
    *,
    path: str | os.PathLike | None = None,
    device="cpu",
    threads: int | None = None,
    accept_other_environment: bool = False,
    progress: bool | None = None,
    **options,
) -> Sweep:
    """Measure `make(**point)` at every point.

    points    dicts of JSON values (str, int, float, bool, None), all different: [{"n": 64}, {"n": 128}].
    make      gives the work of a point, a function to be measured, or a Measurement that it took itself.
    path      each finished point is stored there at once; called again with the same path, the sweep goes on where it stopped.
    device, threads, options   as in `measure`.
    accept_other_environment   go on with a file of another machine, other versions or other threads; otherwise OtherEnvironment.
    progress  None: a bar in a terminal and in a notebook, nothing elsewhere.

    An interrupt (Ctrl-C, the stop button) ends the sweep and not the program: what is measured is returned, `complete` is False,
    and `remaining` says what is missing. Any other error passes on, with the point in its notes. Raises ValueError for bad points
    and DamagedFile for a file that cannot be read.
    """
    wanted = _checked_points(points)
    found = get_device(device)
    context = {"environment": environment_of(found), "threads": threads if threads is not None else found.num_threads}
    done = _stored(path, context, accept_other_environment) if path is not None else {}
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)

    def result() -> Sweep:
        present = [key for key in wanted if key in done]
        missing = tuple(point for key, point in wanted.items() if key not in done)
        return Sweep(tuple(wanted[key] for key in present), tuple(done[key] for key in present), missing)

    try:
        with _bar(len(wanted), progress) as step:
            for key, point in wanted.items():
                name = ", ".join(f"{k}={v}" for k, v in point.items())
                if key not in done:
                    step(name, sum(k in done for k in wanted))
                    done[key] = _measured(point, name, make, device=found, threads=threads, **options)
                    if path is not None:
                        _store(path, context, done)
                step(name, sum(k in done for k in wanted))
    except KeyboardInterrupt:
        kept = result()
        print(
            kept.state
            + (
                f"; call it again with the same path to go on ({Path(path).name})"
                if path is not None
                else "; give `path` to go on later"
            )
        )
        return kept
    return result()


def _measured(point: dict, name: str, make: Callable, **options) -> Measurement:
    try:
        made = make(**point)
        if isinstance(made, Measurement):
            return made
        if not callable(made):
            raise TypeError(f"make returned {type(made).__name__}: expected a function to be measured, or a Measurement")
        return measure(made, **{"label": name, **options})
    except Exception as error:
        error.add_note(f"in the sweep's point {name}")
        raise


def _checked_points(points: Iterable[Mapping]) -> dict[str, dict]:
    """Points by a key that is equal for equal points."""
    keyed: dict[str, dict] = {}
    for index, point in enumerate(points):
        if not isinstance(point, Mapping) or not point:
            raise ValueError(f"points[{index}] = {point!r}: expected a dict such as {{'n': 64}}")
        for name, value in point.items():
            if not isinstance(name, str) or not isinstance(value, (str, int, float, bool, type(None))):
                raise ValueError(f"points[{index}] has {name!r}: {value!r}; expected a name and a str, int, float, bool or None")
        key = json.dumps(dict(point), sort_keys=True, allow_nan=False)
        if key in keyed:
            raise ValueError(f"points[{index}] = {dict(point)} is there twice")
        keyed[key] = dict(point)
    if not keyed:
        raise ValueError("points is empty: expected at least one dict")
    return keyed


def _store(path, context: dict, done: Mapping[str, Measurement]) -> None:
    entries = [{"point": json.loads(key), "measurement": measurement.to_json()} for key, measurement in done.items()]
    write_json(path, {"format": FORMAT, "version": VERSION, **context, "points": entries})


def _stored(path, context: dict, accept_other: bool) -> dict[str, Measurement]:
    """Finished points of an earlier call, by key; none when there is no file."""
    if not Path(path).exists():
        return {}
    content = read_json(path, format=FORMAT, version=VERSION)
    try:
        entries = [
            (json.dumps(entry["point"], sort_keys=True), Measurement.from_json(entry["measurement"], str(path)))
            for entry in content["points"]
        ]
        stored = {"environment": dict(content["environment"]), "threads": content["threads"]}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{path}: {type(error).__name__} {error}. The file is damaged; delete it to measure again.") from error
    if stored != context and not accept_other:
        before, now = (
            stored["environment"] | {"threads": stored["threads"]},
            context["environment"] | {"threads": context["threads"]},
        )
        changed = [
            f"{name} was {before.get(name)!r}, is {now.get(name)!r}"
            for name in dict.fromkeys([*before, *now])
            if before.get(name) != now.get(name)
        ]
        raise OtherEnvironment(
            f"{path} holds a sweep from another environment: {'; '.join(changed)}. "
            "Use another path, or say accept_other_environment=True to mix them."
        )
    return dict(entries)


@contextmanager
def _bar(total: int, wanted: bool | None):
    """Yields step(name, done). A bar on standard output in a terminal or a notebook; nothing elsewhere; never on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stdout, force_terminal=True if wanted else None)
    shown = (console.is_terminal or console.is_jupyter) if wanted is None else wanted
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Refreshed between points only: a thread that draws while a point is measured would be measured with it.
    options = {"auto_refresh": False, "transient": True, "redirect_stdout": False, "redirect_stderr": False, "disable": not shown}
    with Progress(*columns, console=console, **options) as bar:
        task = bar.add_task("sweep", total=total)

        def step(name: str, done: int) -> None:
            bar.update(task, description=name, completed=done, refresh=True)

        yield step
