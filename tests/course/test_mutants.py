"""Mutants: each operator makes the mistakes that it should, a check with a hole is caught by name, and a survivor needs a reason that is true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest
from fixture_lab import write_course

from labkit.course import mutants, proof
from labkit.course.mutant_report import as_data, as_markdown, write_reports
from labkit.course.mutants import DIED, LOST, RAISED, SURVIVED, TIMED_OUT, SurvivorsError, read_survivors
from labkit.course.mutation import mutants as mutants_of
from labkit.course.mutation_operators import OPERATORS
from labkit.course.snapshot import Snapshot


def cell(body: str, head: str = "def f(x, y, n):", before: str = "") -> str:
    """An exercise cell with a docstring that nothing may change."""
    region = textwrap.indent(f"### BEGIN SOLUTION\n{textwrap.dedent(body).strip()}\n### END SOLUTION\n", "    ")
    return f'# exercise: f\n{head}\n    """Twice: 2 * x < y."""\n{textwrap.indent(before, "    ")}{region}'


def changed(body: str, operator: str, **more) -> list[str]:
    """What the mutants of one operator are called, without their lines."""
    return [m.name.partition(": ")[2] for m in mutants_of(cell(body, **more)) if m.operator == operator]


# (code, operator, mutants that are among those of that operator)
MAKES = {
    "a sum doubled and halved": ("return x + y", "factor two", ["`return x + y` becomes `return (x + y) * 2`", "`return x + y` becomes `return (x + y) / 2`"]),
    "a returned name": ("return x", "factor two", ["`return x` becomes `return x * 2`", "`return x` becomes `return x / 2`"]),
    "a returned dict's value": ("return {'flops': n}", "factor two", ["`return {'flops': n}` becomes `return {'flops': n * 2}`"]),
    "a returned dict call's value": ("return dict(flops=n)", "factor two", ["`return dict(flops=n)` becomes `return dict(flops=n * 2)`"]),
    "a returned pair": ("return x, n", "factor two", ["`return (x, n)` becomes `return (x * 2, n)`", "`return (x, n)` becomes `return (x, n / 2)`"]),
    "an axis": ("return x.sum(dim=1)", "axis", ["`return x.sum(dim=1)` becomes `return x.sum(dim=0)`", "`return x.sum(dim=1)` becomes `return x.sum(dim=2)`"]),
    "a negative axis": ("return x.sum(axis=-1)", "axis", ["`return x.sum(axis=-1)` becomes `return x.sum(axis=-2)`", "`return x.sum(axis=-1)` becomes `return x.sum(axis=0)`"]),
    "two axes": ("return x.sum(dim=(0, n))", "axis", ["`return x.sum(dim=(0, n))` becomes `return x.sum(dim=(n, 0))`"]),
    "an index from the end": ("return x.shape[-1]", "axis", ["`return x.shape[-1]` becomes `return x.shape[-2]`"]),
    "sizes exchanged": ("return x.reshape(n, 4)", "axis", ["`return x.reshape(n, 4)` becomes `return x.reshape(4, n)`"]),
    "sizes in a tuple exchanged": ("return x.view((n, 4))", "axis", ["`return x.view((n, 4))` becomes `return x.view((4, n))`"]),
    "a matrix not transposed": ("return x.T", "axis", ["`return x.T` becomes `return x`"]),
    "not transposed by a call": ("return torch.transpose(x, 0, 1)", "axis", ["`return torch.transpose(x, 0, 1)` becomes `return x`"]),
    "factors exchanged": ("return x @ y", "axis", ["`return x @ y` becomes `return y @ x`"]),
    "an index": ("return x[1]", "off by one", ["`return x[1]` becomes `return x[2]`", "`return x[1]` becomes `return x[0]`"]),
    "an index of two": ("return x[0, 1]", "off by one", ["`return x[0, 1]` becomes `return x[1, 1]`", "`return x[0, 1]` becomes `return x[0, 2]`"]),
    "a range": ("return list(range(n))", "off by one", ["`return list(range(n))` becomes `return list(range(n + 1))`", "`return list(range(n))` becomes `return list(range(n - 1))`"]),
    "a slice": ("return x[n:]", "off by one", ["`return x[n:]` becomes `return x[n + 1:]`", "`return x[n:]` becomes `return x[n - 1:]`"]),
    "a strict comparison": ("return x < y", "off by one", ["`return x < y` becomes `return x <= y`"]),
    "a comparison that is not": ("return x >= y", "off by one", ["`return x >= y` becomes `return x > y`"]),
    "a torch dtype": ("return x.to(torch.float32)", "dtype", ["`return x.to(torch.float32)` becomes `return x.to(torch.float16)`", "`return x.to(torch.float32)` becomes `return x.to(torch.float64)`"]),
    "a numpy dtype": ("return x.astype(np.int8)", "dtype", ["`return x.astype(np.int8)` becomes `return x.astype(np.uint8)`"]),
    "a dtype in quotes": ("return x.to('torch.bfloat16')", "dtype", ["`return x.to('torch.bfloat16')` becomes `return x.to('torch.float16')`"]),
    "a cast": ("return x.float()", "dtype", ["`return x.float()` becomes `return x.half()`"]),
    "a small number": ("return x ** 3", "constant", ["`return x ** 3` becomes `return x ** 4`", "`return x ** 3` becomes `return x ** 2`"]),
    "a large number": ("return x * 1000", "constant", ["`return x * 1000` becomes `return x * 2000`", "`return x * 1000` becomes `return x * 500`"]),
    "a float": ("return x * 1.5", "constant", ["`return x * 1.5` becomes `return x * 3.0`", "`return x * 1.5` becomes `return x * 0.75`"]),
    "a text": ("return 'memory' if x else 'compute'", "constant", ["`return 'memory' if x else 'compute'` becomes `return 'compute' if x else 'compute'`"]),
    "a condition": ("if x < y:\n    n = 1\nreturn n", "branch", ["`if x < y:` becomes `if x >= y:`", "the branch of `if x < y:` is dropped", "`if x < y:` is always taken"]),
    "an else": ("if x:\n    n = 1\nelse:\n    n = 2\nreturn n", "branch", ["`if x:` becomes `if not x:`", "the else of `if x:` is dropped"]),
    "a not": ("if not x:\n    n = 1\nreturn n", "branch", ["`if not x:` becomes `if x:`"]),
    "and, or": ("return x and y", "branch", ["`return x and y` becomes `return x or y`", "`return x and y` becomes `return y`", "`return x and y` becomes `return x`"]),
    "a conditional value": ("return x if n else y", "branch", ["`return x if n else y` becomes `return x if not n else y`", "`return x if n else y` becomes `return x`", "`return x if n else y` becomes `return y`"]),
    "a filter": ("return [i for i in x if i > y]", "branch", ["`return [i for i in x if i > y]` becomes `return [i for i in x if i <= y]`", "`return [i for i in x if i > y]` becomes `return [i for i in x if True]`"]),
    "a guard": ("try:\n    x()\nfinally:\n    y()", "branch", ["`try:` is taken away from around its body"]),
    "a context": ("with x:\n    y()", "branch", ["`with x:` is taken away from around its body"]),
    "plus": ("return x + y", "arithmetic", ["`return x + y` becomes `return x - y`"]),
    "division": ("return x / y", "arithmetic", ["`return x / y` becomes `return x * y`", "`return x / y` becomes `return x // y`"]),
    "floor division": ("return x // y", "arithmetic", ["`return x // y` becomes `return x / y`"]),
    "in place": ("x *= y\nreturn x", "arithmetic", ["`x *= y` becomes `x /= y`"]),
    "a smallest value": ("return min(x, y)", "arithmetic", ["`return min(x, y)` becomes `return max(x, y)`"]),
    "a method for a smallest value": ("return x.amin(y)", "arithmetic", ["`return x.amin(y)` becomes `return x.amax(y)`"]),
    "a sign": ("return -x", "arithmetic", ["`return -x` becomes `return x`"]),
    "a call for its effect": ("x.synchronize()\nreturn y", "statement", ["`x.synchronize()` is dropped"]),
    "an update": ("x += y\nreturn x", "statement", ["`x += y` is dropped"]),
    "a second assignment": ("x = y\nreturn x", "statement", ["`x = y` is dropped"]),
    "a refusal": ("if x:\n    raise ValueError('bad')\nreturn y", "branch", ["the branch of `if x:` is dropped"]),
    "a truth": ("return {'stable': True}", "boolean", ["`return {'stable': True}` becomes `return {'stable': False}`"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKES)
def test_an_operator_makes_its_mutants(name):
    code, operator, expected = MAKES[name]
    made = changed(code, operator)
    assert set(expected) <= set(made), made


def test_every_operator_is_shown():
    assert {operator for _, operator, _ in MAKES.values()} == set(OPERATORS)


LEAVES = {
    "a first assignment": ("z = x\nreturn z", "statement"),
    "a key of a dict": ("return {'float32': x}", "dtype"),
    "a key in brackets": ("return x['float32'] , x.get('int8')", "dtype"),
    "a key that is text": ("return {'calls': x}['calls']", "constant"),
    "a message": ("if x:\n    raise ValueError(f'{x} is not 3', 4, 'bad')\nreturn y", "constant"),
    "a docstring": ("def g():\n    'Two words.'\n    return y\nreturn g", "statement"),
    "an annotation": ("z: 'float32' = x\nreturn z", "dtype"),
    "text that is joined": ("return x + '.'", "factor two"),
    "a factor within a product": ("return x * (y / n) * 1", "factor two"),
}


@pytest.mark.parametrize("name", LEAVES)
def test_an_operator_leaves_alone_what_is_no_mistake(name):
    code, operator = LEAVES[name]
    made = changed(code, operator)
    if name == "a factor within a product":
        made = [m for m in made if "y / n * 2" in m]
    assert made == []


def test_only_the_solution_is_changed():
    source = cell("return x", before="y = 2 * 3\n") + "\ndef g():\n    return 4 + 5\n"
    made = mutants_of(source)
    assert [m.name for m in made] == ["line 1: `return x` becomes `return x * 2`", "line 1: `return x` becomes `return x / 2`"]
    for mutant in made:
        assert "Twice: 2 * x < y." in mutant.code and "y = 2 * 3" in mutant.code and "return 4 + 5" in mutant.code


def test_mutants_are_different_from_the_solution_and_from_each_other():
    # -1 is an index from the end, a bound and a number: three operators would change it, in part to the same.
    made = mutants_of(cell("z = x[-1] + x[-1]\nif z < 2 and z < 2:\n    return z\nreturn z"))
    assert len({m.code for m in made}) == len(made) == len({m.name for m in made})
    for mutant in made:
        compile(mutant.code, "<mutant>", "exec")


def test_the_same_change_at_two_places_of_a_long_line_has_two_names():
    made = changed("return g(x - y, 'a text that is so long that nothing around it is shown', x - y)", "arithmetic")
    assert made == ["`x - y` becomes `x + y`", "`x - y` becomes `x + y` (2)"]


def test_a_line_is_counted_from_the_mark_so_that_a_longer_docstring_renames_nothing():
    short = cell("z = x + y\nreturn z")
    longer = short.replace("Twice", "\n    More\n    lines.\n    Twice")
    assert [m.name for m in mutants_of(short)] == [m.name for m in mutants_of(longer)]
    assert [m.line for m in mutants_of(short)][0] == 1 and {m.line for m in mutants_of(short)} == {1, 2}


def test_a_long_line_is_named_by_the_part_that_changes():
    body = "return {'the_first_long_key_of_this_answer': x, 'the_second_long_key_of_this_answer': max(y, n)}"
    made = changed(body, "factor two")
    assert "`'the_first_long_key_of_this_answer': x` becomes `'the_first_long_key_of_this_answer': x * 2`" in made


LIST = """
import sys
from labkit.course.mutation import mutants
for m in mutants(sys.stdin.read()):
    print(m.operator, m.name, m.code.encode())
"""


def test_the_order_does_not_depend_on_the_hash_seed():
    source = cell(
        "z = {'a', 'b', 'c'}\nif x < 3 and y in ('memory', 'compute', 'latency'):\n    return min(z), n - 1\nreturn z, n * 2.0"
    )
    listed = {
        subprocess.run(
            [sys.executable, "-c", LIST], input=source, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4242")
    }  # fmt: skip
    assert len(listed) == 1 and listed.pop().count("\n") > 20


# The proof, on the small course.


@pytest.fixture
def course(tmp_path):
    return write_course(tmp_path)


def judge(course):
    lab = course.lab
    return mutants.judge(lab.master, lab.checks, lab.answers)


def test_the_clean_course_holds(course):
    problems, tallies = judge(course)
    assert [str(p) for p in problems] == []
    assert [(t.exercise, t.made, t.killed, t.equivalent, t.rate) for t in tallies] == [
        ("double", 8, 5, 3, 1.0),
        ("scale-all", 2, 2, 0, 1.0),
    ]
    assert tallies[0].fates == {SURVIVED: 3, LOST: 5}


def test_a_check_with_a_hole_is_caught_by_the_name_of_the_mutant(course):
    course.replace("reference=lambda case: 2 * case.args[0],", "reference=lambda case: None,", course.checks_file)
    course.replace(
        'return None if outcome["value"] == expected', 'return None if expected in (None, outcome["value"])', course.checks_file
    )
    problems, _ = judge(course)
    said = [p for p in problems if "becomes `result = first_summand - second_summand`, earns all 2 points: add a case" in p.message]
    assert [(p.file, p.line, p.cell) for p in said] == [(course.source.name, course.line('exercise="double"'), "double")]
    assert any("0 of 5 mutants lose points, 0%; expected at least 90%" in p.message for p in problems)
    assert not any(p.cell == "scale-all" for p in problems)


def test_a_hole_with_a_reason_is_still_a_hole_when_there_are_too_many(course):
    path = course.answers / "survivors.toml"
    path.write_text(path.read_text().replace("equivalent = true\n", ""))
    problems, tallies = judge(course)
    assert tallies[0].rate == 5 / 8 and tallies[0].equivalent == 0
    assert [p.message for p in problems if p.cell == "double"] == [
        "5 of 8 mutants lose points, 62%; expected at least 90%, however good the reasons of the others: the check accepts too much"
    ]


def test_a_survivor_without_a_reason_is_a_problem(course):
    path = course.answers / "survivors.toml"
    path.write_text(path.read_text().split("\n\n")[0])
    problems, _ = judge(course)
    assert [p.message for p in problems if "earns all" in p.message] == [
        f"the mutant `constant`, line 3: `n = 0` becomes `n = {n}`, earns all 2 points: add a case that it fails, or list it in survivors.toml with a reason"
        for n in (1, -1)
    ]


def test_a_listed_survivor_that_is_none_is_stale(course):
    path = course.answers / "survivors.toml"
    entry = '\n[[{}]]\nmutant = "{}"\nreason = "This is a reason of five words."\n'
    path.write_text(
        path.read_text()
        + entry.format("double", "line 4: `return result` becomes `return result * 2`")
        + entry.format("double", "line 9: `x` becomes `y`")
        + entry.format("treble", "line 1: `x` becomes `y`")
    )
    problems, _ = judge(course)
    assert [(p.file, p.cell, p.message) for p in problems] == [
        ("survivors.toml", "treble", "`line 1: `x` becomes `y``: lab9_fixture has no exercise 'treble'; take the entry out"),
        ("survivors.toml", "double", "stale: `line 4: `return result` becomes `return result * 2`` does not survive: lost points; take the entry out"),
        ("survivors.toml", "double", "stale: `line 9: `x` becomes `y`` is no mutant of this solution; take the entry out"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("[[double]]", "[double]", "double: expected entries"),
        ("equivalent = true", 'equivalent = "yes"', "equivalent is 'yes', expected true or false"),
        ("equivalent = true", "same = true", "unknown key 'same'; known: mutant, reason, equivalent"),
        ('reason = "Nothing reads n after this line."', 'reason = "Equivalent."', "reason is 'Equivalent.', expected a sentence"),
        ('reason = "Nothing reads n after this line."', "", "reason is '', expected a sentence"),
        ('mutant = "line 3: `n = 0` is dropped"', "mutant = 3", "mutant is 3, expected a mutant's name"),
        ("[[double]]", "[[double", "not valid TOML"),
    ],
)
def test_a_list_of_survivors_that_cannot_be_read_is_named(course, old, new, says):
    path = course.answers / "survivors.toml"
    path.write_text(path.read_text().split("\n\n")[0].replace(old, new))
    with pytest.raises(SurvivorsError, match="^survivors.toml: "):
        read_survivors(path)
    problems, tallies = judge(course)
    assert len(problems) == 1 and problems[0].file == "survivors.toml" and says in problems[0].message and tallies == []


def test_an_entry_twice_is_refused(course):
    path = course.answers / "survivors.toml"
    path.write_text(path.read_text() + path.read_text())
    with pytest.raises(SurvivorsError, match="is listed twice"):
        read_survivors(path)


def test_without_a_list_nothing_is_listed(tmp_path):
    assert read_survivors(tmp_path / "survivors.toml") == []


def test_how_a_mutant_ended_is_told(course):
    course.replace("n = 0\n    return result", "while n != 0:\n        n = 0\n    return result", course.source)
    lab = course.lab
    with Snapshot(lab.master) as snapshot:
        fates = {
            how: mutants.judge_one(
                snapshot, lab.checks["double"], mutants.Mutant("", "", f"def double(n):\n    {code}\n", 1), 1.0
            ).how
            for how, code in {
                SURVIVED: "return n + n",
                LOST: "return n",
                RAISED: "return n + ''",
                TIMED_OUT: "while True: pass",
                DIED: "import os; os._exit(3)",
            }.items()
        }
        assert fates == {how: how for how in fates}
        half = mutants.Mutant("", "", "def double(n):\n    return 2 * n if n > 0 else 1 / 0\n", 1)
        judged = mutants.judge_one(snapshot, lab.checks["double"], half, 5.0)
        assert (judged.how, judged.points, judged.visible) == (LOST, 1.0, False)


def test_an_endless_mutant_ends_and_counts_as_killed(course, monkeypatch):
    monkeypatch.setattr(mutants, "LIMIT_S", 0.5)
    monkeypatch.setattr(mutants, "LIMIT_FACTOR", 0.0)
    # Each change of the count makes a loop that goes on for ever: no assertion depends on how long.
    course.replace("n = 0\n", "count = 1\n    while count != 0:\n        count -= 1\n", course.source)
    (course.answers / "survivors.toml").unlink()
    problems, tallies = judge(course)
    fates = {j.mutant.name: j for j in tallies[0].judged}
    endless = fates["line 5: `count -= 1` is dropped"]
    assert endless.how == TIMED_OUT and endless.killed and endless.visible is None
    assert fates["line 5: `count -= 1` becomes `count += 1`"].how == TIMED_OUT


def test_a_solution_that_is_wrong_shows_nothing_by_its_mutants(course):
    course.replace("result = first_summand + second_summand", "result = first_summand - second_summand")
    problems, tallies = judge(course)
    assert "the solution itself lost points on the grading cases (0 points)" in problems[0].message
    assert [t.exercise for t in tallies] == []  # scale-all stands on double


def test_the_proof_is_in_the_list_and_gives_the_tallies(course):
    assert dict(proof.PROOFS)["mutants"] is proof.mutants_killed
    facts: dict = {}
    assert proof.mutants_killed(course.lab, facts) == []
    assert facts["mutants"]["double"].made == 8


def test_the_report_has_every_mutant_and_the_reasons(course, tmp_path):
    _, tallies = judge(course)
    labs = {"lab9_fixture": {t.exercise: t for t in tallies}}
    write_reports(tmp_path / "new" / "folder", labs)
    data = json.loads((tmp_path / "new" / "folder" / "mutants.json").read_text())
    assert data == as_data(labs)
    double = data["lab9_fixture"]["double"]
    assert (double["made"], double["killed"], double["survived"], double["equivalent"], double["rate"]) == (8, 5, 3, 3, 1.0)
    assert len(double["mutants"]) == 8 and double["mutants"][3]["reason"] == "Nothing reads n after this line."
    text = (tmp_path / "new" / "folder" / "mutants.md").read_text()
    assert text == as_markdown(labs)
    assert "| double | 8 | 5 | 5 | 0 | 0 | 0 | 3 | 3 | 100.0% |" in text and "| factor two | 6 | 6 | 0 | 0 |" in text
    assert "* double, statement, line 3: `n = 0` is dropped. Equivalent. Nothing reads n after this line." in text


def test_a_mutant_that_only_the_graded_cases_tell_is_listed():
    mutant = mutants_of(cell("return x"))[0]
    tally = mutants.MutantTally("f", [mutants.Judged(mutant, LOST, 1.0, visible=True)])
    shown = as_markdown({"lab": {"f": tally}})
    assert shown.endswith(f"accepted by the visible ones:\n\n* f, factor two, {mutant.name}\n")
    tally.judged[0].visible = False
    assert "visible" not in as_markdown({"lab": {"f": tally}})


@pytest.mark.slow
def test_labs_hold():
    from labkit import paths
    from labkit.checks import lab_checks
    from labkit.course.config import available_labs, load_course

    root = paths.repo_root()
    for name in available_labs():
        lab = proof.Lab(root / "solutions" / f"{name}.py", load_course(), lab_checks(name), root / "tests" / "answers" / name)
        problems, tallies = mutants.judge(lab.master, lab.checks, lab.answers)
        assert [str(p) for p in problems] == []
        assert {t.exercise for t in tallies} == set(lab.checks)
        # A mutant that only the graded cases tell takes points from somebody who saw full points.
        assert [f"{t.exercise}: {j.mutant.name}" for t in tallies for j in t.judged if j.killed and j.visible] == []
