"""The check protocol: a case generator, a reference and a comparator.

`Check.cases(seed)` gives cases, `run_case(case, function)` calls the learner's function and returns the outcome as plain
JSON, `Check.score(cases, outcomes)` judges. The three never share an object, so that running can happen in another process
(a snapshot, a sandbox) and the reference never enters it.
"""

from __future__ import annotations

import copy
import json
import os
import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from labkit.checks import continuing, session
from labkit.checks.score import Score
from labkit.checks.values import NotPlain, decode, encode
from labkit.guard import Continued, TwinRefused, checking

VISIBLE_SEED = 0


def grading_seed() -> int:
    """Seed of the graded cases: LABKIT_GRADING_SEED where the instructor set one, else a fixed seed unlike the visible one."""
    text = os.environ.get("LABKIT_GRADING_SEED", "20261")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"LABKIT_GRADING_SEED must be an integer, got {text!r}") from None


@dataclass(frozen=True)
class Work:
    """Argument of a case: the work of this name on the case's device."""

    name: str


@dataclass(frozen=True)
class Device:
    """Argument of a case: the case's device itself."""


@dataclass(frozen=True)
class Case:
    """One call of the learner's function.

    label: what the learner reads about it. group: part of the points that it decides. args, kwargs: plain values, `Work` or
    `Device`. device: description of a virtual device (`VirtualDevice.description()`); works: name -> keyword arguments of
    `VirtualDevice.work`. before: names of works that are already in the device's queue when the function is called.
    """

    label: str
    group: str
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    device: dict | None = None
    works: dict = field(default_factory=dict)
    before: tuple = ()

    def to_json(self) -> str:
        """The case as JSON text."""
        data = asdict(self)
        data["args"] = [_encode_argument(a) for a in self.args]
        data["kwargs"] = {k: _encode_argument(v) for k, v in self.kwargs.items()}
        data["before"] = list(self.before)
        return json.dumps(data, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Case:
        """Inverse of `to_json`."""
        data = json.loads(text)
        data["args"] = tuple(_decode_argument(a) for a in data["args"])
        data["kwargs"] = {k: _decode_argument(v) for k, v in data["kwargs"].items()}
        data["before"] = tuple(data["before"])
        return cls(**data)


def _encode_argument(value):
    if isinstance(value, Work):
        return {"$work": value.name}
    if isinstance(value, Device):
        return {"$device": True}
    return encode(value)


def _decode_argument(value):
    if isinstance(value, dict) and "$work" in value:
        return Work(value["$work"])
    if isinstance(value, dict) and "$device" in value:
        return Device()
    return decode(value)


def build_device(case: Case):
    """The case's virtual device and its works, fresh: `(device, {name: work})`, or `(None, {})`."""
    if case.device is None:
        return None, {}
    from labkit.bench.virtual import VirtualDevice

    device = VirtualDevice.from_description(case.device)
    return device, {name: device.work(name, **spec) for name, spec in case.works.items()}


def run_case(case: Case, function: Callable) -> dict:
    """Calls `function` once and returns {"value" | "error", "device"} as plain JSON data. Never raises for what `function` does,
    except KeyboardInterrupt."""
    device, works = build_device(case)
    for name in case.before:
        works[name]()

    def resolve(value):
        if isinstance(value, Work):
            return works[value.name]
        return device if isinstance(value, Device) else copy.deepcopy(value)

    outcome: dict = {}
    try:
        value = function(*[resolve(a) for a in case.args], **{k: resolve(v) for k, v in case.kwargs.items()})
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a learner's exit() is an answer that did not return
        outcome["error"] = _describe(error)
    else:
        try:
            outcome["value"] = encode(value)
        except NotPlain as error:
            outcome["error"] = {"type": "NotPlain", "text": str(error), "line": None, "unwritten": False}
    if device is not None:
        outcome["device"] = device.report()
    return outcome


def _describe(error: BaseException) -> dict:
    frames = traceback.extract_tb(error.__traceback__)
    source = next(
        (f.line for f in reversed(frames) if f.name != "run_case" and "labkit" not in f.filename.replace("\\", "/").split("/")),
        None,
    )
    return {
        "type": type(error).__name__,
        "text": str(error)[:500],
        "line": source,
        "unwritten": isinstance(error, NotImplementedError) and not str(error),
        "refused": isinstance(error, TwinRefused),
        "continued": isinstance(error, Continued),
    }


@dataclass(frozen=True)
class Verdict:
    """Judgement of one case: ok, and for a failure what was tested, expected, got, and one likely cause."""

    ok: bool
    message: str = ""


@dataclass(frozen=True)
class Cause:
    """One likely cause of a wrong answer: `applies(case, outcome, expected)` recognises it, `text` tells the learner."""

    applies: Callable[[Case, dict, object], bool]
    text: str


@dataclass(frozen=True)
class Check:
    """An exercise's check.

    exercise: grade id. function: name of the learner's function. groups: ordered {group name: points}; a group counts only
    when all groups before it are right, so that nobody earns the edge cases of a function that is wrong; with `independent`, each group
    counts by itself. generate(rng) gives
    the cases, reference(case) the expected value, compare(case, outcome, expected) None when right, else what is wrong.
    """

    exercise: str
    function: str
    groups: dict[str, float]
    generate: Callable[[random.Random], Sequence[Case]]
    reference: Callable[[Case], object]
    compare: Callable[[Case, dict, object], str | None]
    causes: tuple[Cause, ...] = ()
    error_causes: tuple[Cause, ...] = ()
    independent: bool = False

    @property
    def points(self) -> float:
        """Points of the whole exercise."""
        return float(sum(self.groups.values()))

    def cases(self, seed: int = VISIBLE_SEED) -> list[Case]:
        """The cases of a seed: the same seed gives the same cases, on every host."""
        cases = list(self.generate(random.Random(f"{self.exercise}/{seed}")))
        unknown = {case.group for case in cases} - set(self.groups)
        missing = set(self.groups) - {case.group for case in cases}
        if unknown or missing:
            raise ValueError(
                f"check {self.exercise}: groups without points {sorted(unknown)}, groups without a case {sorted(missing)}"
            )
        return cases

    def judge(self, case: Case, outcome: dict) -> Verdict:
        """Judges one outcome of `run_case`. The reference runs here and only here."""
        expected = self.reference(case)
        if "error" in outcome:
            return Verdict(False, self._error_message(case, outcome, expected))
        plain = {**outcome, "value": decode(outcome["value"])}
        wrong = self.compare(case, plain, expected)
        if wrong is None:
            return Verdict(True)
        cause = next((c.text for c in self.causes if _applies(c, case, plain, expected)), None)
        return Verdict(False, f"{case.label}: {wrong}" + (f" {cause}" if cause else ""))

    def _error_message(self, case: Case, outcome: dict, expected) -> str:
        error = outcome["error"]
        if error["type"] == "NotPlain":
            return f"{case.label}: `{self.function}` returned {error['text']}; expected plain Python numbers, strings, lists, tuples or dicts."
        cause = next((c.text for c in self.error_causes if _applies(c, case, outcome, expected)), None)
        if error.get("refused"):
            return error["text"]
        where = f" in the line `{error['line'].strip()}`" if error.get("line") else ""
        return f"{case.label}: {error['type']}: {error['text']}{where}." + (f" {cause}" if cause else "")

    def score(self, cases: Sequence[Case], outcomes: Sequence[dict]) -> Score:
        """Judges all outcomes and adds up the points."""
        if len(cases) != len(outcomes):
            raise ValueError(f"check {self.exercise}: {len(cases)} cases but {len(outcomes)} outcomes")
        if outcomes and all(o.get("error", {}).get("unwritten") for o in outcomes):
            message = f"`{self.function}` is not written yet: replace the line that raises NotImplementedError."
            return Score(0, exercise=self.exercise, maximum=self.points, messages=[message], waiting=True)
        if outcomes and all(o.get("error", {}).get("continued") for o in outcomes):
            return continuing.continued_score(self)
        verdicts = [self.judge(case, outcome) for case, outcome in zip(cases, outcomes, strict=True)]
        earned, rows, open_so_far, waits_for = 0.0, [("what was tested", "cases right", "points")], True, ""
        for group, points in self.groups.items():
            of_group = [v for c, v in zip(cases, verdicts, strict=True) if c.group == group]
            right = sum(v.ok for v in of_group)
            open_so_far = right == len(of_group) and (open_so_far or self.independent)
            earned += points if open_so_far else 0.0
            waiting = f", until {waits_for} is right" if right == len(of_group) and not open_so_far else ""
            rows.append((group, f"{right} of {len(of_group)}", f"{points if open_so_far else 0:g} of {points:g}{waiting}"))
            waits_for = waits_for or ("" if right == len(of_group) else group)
        return Score(
            earned,
            exercise=self.exercise,
            maximum=self.points,
            messages=_first_failures(cases, verdicts),
            rows=rows,
            continue_line=continuing.line_for(self) if earned < self.points else "",
        )

    def tried(self, function: Callable, *, seed: int = VISIBLE_SEED) -> Score:
        """Checks `function` here and now, beside the learner's code. Nothing is remembered."""
        cases = self.cases(seed)
        with checking(self.exercise):
            outcomes = [run_case(case, function) for case in cases]
        return self.score(cases, outcomes)

    def __call__(self, function: Callable, *, seed: int | None = None) -> Score:
        """Checks `function` here and now, and remembers the score for the cells that wait for it."""
        if not callable(function):
            score = Score(
                0,
                exercise=self.exercise,
                maximum=self.points,
                messages=[
                    f"expected the function `{self.function}`, got {type(function).__name__}: run the exercise cell, then this one."
                ],
            )
        else:
            score = self.tried(function, seed=VISIBLE_SEED if seed is None else seed)
        session.record(score)
        return score


def _applies(cause: Cause, case: Case, outcome: dict, expected) -> bool:
    # A diagnosis looks at a wrong answer of any form: one that it cannot read is one that it does not recognise.
    try:
        return bool(cause.applies(case, outcome, expected))
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError, AttributeError, OverflowError):
        return False


def _first_failures(cases, verdicts, limit: int = 2) -> list[str]:
    """The first failure of each group, at most `limit`: a learner acts on one thing at a time."""
    seen, messages = set(), []
    for case, verdict in zip(cases, verdicts, strict=True):
        if not verdict.ok and case.group not in seen and len(messages) < limit:
            seen.add(case.group)
            if verdict.message not in messages:
                messages.append(verdict.message)
    return messages
