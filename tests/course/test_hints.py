"""Hints, comments and docstrings that tell an expression of the solution stop a build; what points at it does not."""

from __future__ import annotations

import pytest
from fixture_lab import write_course

from labkit.course.hints import Passage, expressions, passages, told
from labkit.course.source import SourceError

ANSWER = "result = max(first_summand, offset_of(n)) - min(second_summand, n)"
"""Takes the place of the clean course's solution: it is never run here."""


@pytest.fixture
def course(tmp_path):
    return write_course(tmp_path).replace("result = first_summand + second_summand", ANSWER)


def problems(course) -> list:
    try:
        course.lab.master  # noqa: B018
    except SourceError as error:
        return error.problems
    return []


NUMBERS, PICTURE, DOCSTRING = "# ## Numbers\n#\n", '    print("twice seven is", double(offset))\n', '    """Twice a number.\n'

# (anchor in the source, text after it, cell, what holds it, line that is named)
TELLS = {
    "the answer in a comment": (PICTURE, "    # max(first_summand, offset_of(n)) - min(second_summand, n)\n", "picture", "comment"),
    "in a comment above the gap": (DOCSTRING + "\n    >>> double(4)\n    8\n    \"\"\"\n", "    # result = max(first_summand, offset_of(n)) - min(second_summand, n)\n", "double", "comment"),
    "in a trailing comment": ("offset = 7", "  # for max(first_summand, offset_of(n))-min(second_summand, n)", "set-up", "comment"),
    "in a comment of two lines": (PICTURE, "    # max(first_summand, offset_of(n))\n    # - min(second_summand, n) is what you want\n", "picture", "comment"),
    "in a hint with other spacing": (NUMBERS, "# <details><summary>Hint 0: a way</summary>Try max( first_summand,offset_of( n ) )-min(second_summand , n).</details>\n#\n", "double-text", "hint"),
    "in a hint with other names": (NUMBERS, "# <details><summary>Hint 0: a way</summary>`max(a, offset_of(m)) - min(b, m)`</details>\n#\n", "double-text", "hint"),
    "in a hint with brackets": (NUMBERS, "# <details><summary>Hint 0: a way</summary>(max(a, (offset_of(m)))) - (min(b, m))</details>\n#\n", "double-text", "hint"),
    "in a hint with escapes": (NUMBERS, "# <details><summary>Hint 0: a way</summary>max(first&#95;summand, offset_of(n)) &minus; min(b, n)</details>\n#\n", "double-text", "hint"),
    "in a code span": (NUMBERS, "# The rule is `max(first_summand, offset_of(n)) - min(second_summand, n)`.\n#\n", "double-text", "text"),
    "in a code block": (NUMBERS, "# ```python\n# z = max(x, offset_of(n)) - min(y, n)\n# ```\n#\n", "double-text", "text"),
    "in the docstring": (DOCSTRING, "    It is max(a, offset_of(n)) - min(b, n).\n", "double", "docstring"),
    "in an example that calls something else": (DOCSTRING, "    >>> max(a, offset_of(n)) - min(b, n)\n", "double", "docstring"),
    "a large part of it": (NUMBERS, "# Begin with max(first_summand, offset_of(n)).\n#\n", "double-text", "text"),
}  # fmt: skip


@pytest.mark.parametrize("name", TELLS)
def test_the_answer_is_found_and_named_with_its_place(course, name):
    anchor, text, cell, what = TELLS[name]
    course.replace(anchor, anchor + text)
    told_in = next(line for line in text.split("\n") if "max(" in line)
    line = course.line(told_in)
    said = [p for p in problems(course) if "holds an expression of the solution" in p.message]
    assert [(p.line, p.cell) for p in said] == [(line, cell)]
    assert f"this {what} holds an expression of the solution of exercise `double`: `" in said[0].message
    assert "max(first_summand, offset_of(n))" in said[0].message and "say what to look at" in said[0].message


QUIET = {
    "other words": "# Look at the larger of the two and at the smaller of the two. Which is taken from which?\n#\n",
    "a part that anybody writes": "# `max(first_summand, n)` and `offset_of(n)` are functions; `x - y` is a difference.\n#\n",
    "another function": "# `sum(first_summand, offset_of(n)) - len(second_summand, n)`\n#\n",
    "one name for two": "# `max(n, offset_of(n)) - min(n, n)`\n#\n",
    "a call with its words": "# Use `double(n)` as before, and `offset_of` of a number - min and max of two.\n#\n",
}


@pytest.mark.parametrize("name", QUIET)
def test_what_only_points_there_is_no_leak(course, name):
    course.replace(NUMBERS, NUMBERS + QUIET[name])
    assert [str(p) for p in problems(course)] == []


def test_an_instructors_cell_and_the_solutions_own_comments_may_say_it(course):
    course.replace("# Learners often forget that", f"# `{ANSWER}`: learners often forget that")
    course.replace("    " + ANSWER, f"    # {ANSWER}\n    {ANSWER}")
    assert [str(p) for p in problems(course)] == []


def test_an_example_that_calls_the_function_is_how_it_is_used(course):
    course.replace(
        "    >>> double(4)\n", "    >>> double(max(3, offset_of(4)) -\n    ...        min(3, 4))\n    0\n    >>> double(4)\n"
    )
    assert [str(p) for p in problems(course)] == []


def cell(body: str) -> str:
    lines = "\n".join("    " + line for line in body.split("\n"))
    return f'def f(x, y, n, z, w):\n    """Doc."""\n    ### BEGIN SOLUTION\n{lines}\n    ### END SOLUTION\n'


def tells(body: str, text: str) -> bool:
    return bool(told(Passage("hint", ((1, text),)), expressions(cell(body)), {"statistics"}))


# (solution, text, whether the text tells it)
JUDGED = [
    ("return n.now() - start", "take n.now() - start", True),
    ("return n.now() - start", "take device.now() - start", False),  # three parts with other names: anybody's clock
    ("return statistics.median(x) * (y - 1)", "median(x) * (y - 1)", True),
    ("return median(x) * (y - 1)", "statistics.median(x)*y-1", True),  # grouping is not looked at
    ("return x * y", "x * y", False),
    ("return x * y + n", "x * y + n", True),
    ("return x * y + n", "a * b + c", False),  # nothing of its own: three operands
    ("return x * y + n * z", "a * b + c * d", False),
    ("return x * y + n * z / w", "a * b + c * d / e", True),
    ("return x * y + n * z / w", "a * b + a * d / e", False),  # one name for two variables
    ("return 2 * x * y * n", "it does 2·M·N·K of them", True),
    ("return 2 * x * y * n", r"it does $2 \times M \times N \times K$ of them", True),
    ("return 2 * x * y * n", "it does 3 * M * N * K of them", False),
    ("return x * 1e-4 + y", "x * 0.0001 + y", True),
    ("return max(x) - min(x) <= y * n", "max(x)-min(x)≤y*n", True),
    ("return max(x) - min(x)", "max - min <= tolerance * median of the window", False),
    ("return {'a': x, 'b': y, 'c': n}", "a dict with 'a': x, 'b': y, 'c': n", False),  # the form of the answer is no secret
    ("return ('device', 'dtype', 'kind')", "'device', 'dtype', 'kind'", False),
    ("return len(x) < n and y", "len(x)<n and y", True),
    ("return len(x) < n and y", "<b>len(x) &lt; n and y</b>", True),
    ("return x if x['dtype'] else y[n]", "x if x[dtype] else y[n]", True),
]


@pytest.mark.parametrize("solution, text, tell", JUDGED)
def test_what_counts_as_told(solution, text, tell):
    assert tells(solution, text) is tell


def test_the_largest_expression_at_a_place_is_named_once():
    secrets = expressions(cell("return max(x) - min(x) <= y * len(n)"))
    found = told(Passage("hint", ((4, "max(x) - min(x) <= y * len(n)"), (7, "and max(x) - min(x)"))), secrets, set())
    assert [(line, e.text) for line, e in found] == [(4, "max(x) - min(x) <= y * len(n)"), (7, "max(x) - min(x)")]


def test_passages_of_a_cell_have_their_lines():
    text = "# one\n# two\nx = 1  # three\n\n\ndef f():\n    '''Doc.\n\n    >>> f()\n    3\n    '''\n"
    found = [(p.what, [n for n, _ in p.lines]) for p in passages(text, "code", {"f"})]
    assert found == [("comment", [1, 2, 3]), ("docstring", [7, 8, 10, 11])]
    folded = "Text\n<details><summary>Hint</summary>\nwords\n</details>\nmore"
    assert [(p.what, [n for n, _ in p.lines]) for p in passages(folded, "markdown", set())] == [
        ("text", [1]),
        ("hint", [2, 3, 4]),
        ("text", [5]),
    ]
