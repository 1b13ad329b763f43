"""Judging a cell: the claim by a one-way digest of what is accepted, the evidence by direction and ratio. Text is never judged.

data/landscape/accepted.json holds salted digests, so that the answers cannot be read in the package. Somebody who tries all six claims of a
row finds the accepted one, as with any check that says right or wrong; the reasons stand in the instructor's reference alone. While an exercise is
being checked nothing here answers, so a function that tries claims until one is accepted earns nothing.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from labkit import paths
from labkit.guard import refuse_truth
from labkit.landscape.numbers import Number, number
from labkit.landscape.rows import QUANTITIES, EvidenceRule, checked_system, near, row, systems


@dataclass(frozen=True)
class CellVerdict:
    """claim_ok, evidence_ok; message: what to do about what is not, empty when both are. ratio: of the evidence, or None."""

    claim_ok: bool
    evidence_ok: bool
    message: str = ""
    ratio: float | None = None

    @property
    def ok(self) -> bool:
        """Both are right."""
        return self.claim_ok and self.evidence_ok


def digest(salt: str, row_id: str, system: str, claim: str) -> str:
    """One-way digest of an accepted claim."""
    return hashlib.sha256(f"{salt}/{row_id}/{system}/{claim}".encode()).hexdigest()[:24]


@functools.cache
def _accepted() -> dict:
    return json.loads((paths.data_dir() / "landscape" / "accepted.json").read_text(encoding="utf-8"))


def claim_accepted(row_id: str, system: str, claim: str) -> bool:
    """Whether a claim is accepted for a cell. Raises TwinRefused while an exercise is being checked."""
    refuse_truth("labkit.landscape.judge")
    data = _accepted()
    return digest(data["salt"], row_id, system, claim) in data["cells"][f"{row_id}/{system}"]


def judge(row_id: str, system: str, cell: Mapping, numbers: Callable[[str], Number] = number) -> CellVerdict:
    """Judges {"claim": id, "evidence": None, an id, or a pair [a, b]}. numbers: id -> Number, by default what every computer can look up.

    Raises ValueError for an unknown row or system, TwinRefused while an exercise is being checked. A claim that is none of the row's vocabulary, and evidence that does not exist, are judged
    wrong with a message.
    """
    where, system = row(row_id), checked_system(system)
    claim = cell.get("claim")
    if not isinstance(claim, str) or claim not in where.vocabulary:
        return CellVerdict(
            False,
            False,
            f"{claim!r} is no claim of this row{near(claim, where.vocabulary)}; it has {', '.join(where.vocabulary)}",
        )
    claim_ok = claim_accepted(row_id, system, claim)
    evidence_ok, said, ratio = _evidence(where.evidence.get(claim), system, cell.get("evidence"), numbers)
    messages = []
    if not claim_ok:
        messages.append(f"`{claim}` is not what this machine does. Look at {where.look}.")
    elif not evidence_ok:
        messages.append(f"The claim is right, its evidence is not yet: {said}")
    return CellVerdict(claim_ok, evidence_ok, " ".join(messages), ratio)


def _evidence(rule: EvidenceRule | None, system: str, given, numbers) -> tuple[bool, str, float | None]:
    """(right, what is wrong, ratio). Without a rule, evidence is welcome and has to exist."""
    ids = [] if given is None else [given] if isinstance(given, str) else list(given) if isinstance(given, (list, tuple)) else None
    if ids is None or not all(isinstance(i, str) for i in ids) or len(ids) > 2:
        return False, f"evidence is {given!r}; expected None, an id, or a pair of ids [a, b]", None
    try:
        found = [numbers(i) for i in ids]
    except ValueError as error:
        return False, str(error), None
    if rule is None:
        return True, "", None
    if len(found) != 2:
        return False, f"this claim needs a pair of numbers {rule}", None
    a, b = found
    needed = rule
    rule = next((way for way in rule.ways if {a.quantity, b.quantity} == {way.quantity}), rule)
    wrong = [f"{n.id} is a {QUANTITIES[n.quantity]}" for n in found if n.quantity != rule.quantity]
    expected = {"": None, "own": {system}, "other": set(systems()) - {system}, "model": {"model"}}
    wrong += [
        f"{n.id} is about {n.about}, not {system if who == 'own' else 'a model' if who == 'model' else 'another of the systems'}"
        for n, who in ((a, rule.of), (b, rule.over))
        if who and n.about not in expected[who]
    ]
    if not wrong and rule.of == rule.over == "own" and a.product != b.product:
        wrong = [f"{a.id} and {b.id} are of two products, {a.product or 'unnamed'} and {b.product or 'unnamed'}"]
    if wrong:
        return False, f"{'; '.join(wrong)}. Needed: {needed}", None
    ratio = a.value / b.value
    if ratio >= rule.least:
        return True, "", ratio
    turned = " Turned round, [b, a], it would be." if 1 / ratio >= rule.least and rule.of == rule.over else ""
    return False, f"{a.id} ({a.kind}) over {b.id} ({b.kind}) is {ratio:.3g}. Needed: {needed}.{turned}", ratio
