"""Sources and marks: each mistake of an author stops the build with file, line and cell; the clean lab is the positive control."""

from __future__ import annotations

import re
import string

import pytest
from fixture_lab import COURSE, HINTS, NAME, write_course
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.course.delimiters import REGIONS, find_delimiters, regions, without_regions
from labkit.course.source import SourceError, read_source, student_notebook


@pytest.fixture
def course(tmp_path):
    return write_course(tmp_path)


def problems(course, checks=None):
    with pytest.raises(SourceError) as caught:
        read_source(course.source, COURSE, checks=course.lab.checks if checks is None else checks)
    return caught.value.problems


def one(course, message: str, at: str | None, cell: str | None, checks=None):
    """Asserts that a problem says `message`, at the line that holds `at`, in the cell."""
    found = problems(course, checks)
    said = [p for p in found if message in p.message]
    assert said, [str(p) for p in found]
    line = 0 if at is None else course.line(at)
    assert line in [p.line for p in said], (line, [str(p) for p in said])
    assert all(p.file == f"{NAME}.py" for p in said)
    if cell is not None:
        assert cell in [p.cell for p in said]
        assert f"cell {cell}: " in str(said[0]) and f"{NAME}.py:{said[0].line}: " in str(said[0])


def test_the_clean_source_has_no_problem(course):
    assert [c.id for c in course.lab.master.cells] == [
        "title", "set-up", "parameters", "for-instructors", "double-text", "double", "double-check", "picture", "scale-text", "scale-all", "scale-all-check", "end",
    ]  # fmt: skip


HEADER = '# %% exercise="double" level="core" minutes=5'
CHECK = '# %% check="double" points=2'
SCALE = '# %% exercise="scale-all" level="stretch" minutes=7'
VISIBLE = "checks.double(double)\n"
HIDDEN = "checks.double(double, seed=checks.grading_seed())\n"
BEGIN, END = "    ### BEGIN SOLUTION\n    first", "    return result\n    ### END SOLUTION"
BEGIN_HIDDEN, END_HIDDEN = f"{VISIBLE}### BEGIN HIDDEN TESTS", f"{HIDDEN}### END HIDDEN TESTS"

# (old, new, words of the message, text in the line that is named (None: the file), cell)
BREAKS = {
    "solution mark misspelt": (BEGIN, BEGIN.replace("SOLUTION", "SOLUTON"), "looks like `BEGIN SOLUTION` misspelt", "BEGIN SOLUTON", "double"),
    "solution mark in small letters": (BEGIN, BEGIN.replace("BEGIN SOLUTION", "begin solution"), "looks like `BEGIN SOLUTION` misspelt", "begin solution", "double"),
    "solution end misspelt": (END, END.replace("END", "EDN"), "looks like `END SOLUTION` misspelt", "EDN SOLUTION", "double"),
    "hidden mark in the singular": (BEGIN_HIDDEN, BEGIN_HIDDEN[:-1], "looks like `BEGIN HIDDEN TESTS` misspelt", "### BEGIN HIDDEN TEST", "double-check"),
    "hidden mark in small letters": (BEGIN_HIDDEN, f"{VISIBLE}### begin hidden tests", "misspelt", "### begin hidden tests", "double-check"),
    "hidden end misspelt": (END_HIDDEN, END_HIDDEN.replace("HIDDEN TESTS", "HIDEN TESTS"), "looks like `END HIDDEN TESTS` misspelt", "END HIDEN", "double-check"),
    "solution never closed": (END, "    return result", "never closed; add `### END SOLUTION`", "### BEGIN SOLUTION", "double"),
    "solution never opened": (BEGIN, "    first", "closes a region that no `BEGIN SOLUTION` opened", "### END SOLUTION", "double"),
    "hidden tests never closed": (END_HIDDEN, HIDDEN, "never closed", "### BEGIN HIDDEN TESTS", "double-check"),
    "nested regions": (BEGIN, "    ### BEGIN SOLUTION\n" + BEGIN, "inside the region that line", None, "double"),
    "solution mark in a plain cell": ("offset = 7", "### BEGIN SOLUTION\noffset = 7\n### END SOLUTION", "belongs into exercise or written cells; this is a plain cell", "### BEGIN SOLUTION", "set-up"),
    "hidden tests in an exercise": (BEGIN, "    ### BEGIN HIDDEN TESTS\n    x = 1\n    ### END HIDDEN TESTS\n" + BEGIN, "belongs into check cells", "BEGIN HIDDEN TESTS", "double"),
    "duplicate id": ('id="end"', 'id="title"', "duplicate id: the cell in line 1 has it", None, "title"),
    "duplicate exercise": (SCALE, SCALE.replace("scale-all", "double"), "duplicate id", 'exercise="double" level="stretch"', "double"),
    "bad id": ('id="end"', 'id="the end"', "1 to 64 letters", 'id="the end"', "the end"),
    "anchor of another exercise": ("# exercise: double", "# exercise: treble", "the first line must be `# exercise: double`, got `# exercise: treble`", "# exercise: treble", "double"),
    "anchor lost": ("# check: double\n", "", "the first line must be `# check: double`", "checks.double(double)", "double-check"),
    "header of another exercise": (HEADER, HEADER.replace('"double"', '"treble"'), "the first line must be `# exercise: treble`", "# exercise: double", "treble"),
    "exercise without a check": (f"{CHECK}\n# check: double\n{VISIBLE}### BEGIN HIDDEN TESTS\n{HIDDEN}### END HIDDEN TESTS\n", "# %% id='x'\n", "exercise without a check", HEADER, "double"),
    "check of no exercise": ('# %% check="scale-all" points=3\n# check: scale-all', '# %% check="scale" points=3\n# check: scale', "checks an exercise that the lab does not have", '# %% check="scale"', "scale-check"),
    "points that differ": (CHECK, CHECK.replace("2", "4"), "points is 4, but the Check gives 2; write points=2", 'check="double"', "double-check"),
    "points missing": (CHECK, '# %% check="double"', "points is None, but the Check gives 2", 'check="double"', "double-check"),
    "no level": (HEADER, HEADER.replace(' level="core"', ""), "level is None", 'exercise="double"', "double"),
    "a level that is none": (HEADER, HEADER.replace('"core"', '"Core"'), "level is 'Core'", 'exercise="double"', "double"),
    "no minutes": (HEADER, HEADER.replace(" minutes=5", ""), "minutes is None", 'exercise="double"', "double"),
    "no minutes at all": (HEADER, HEADER.replace("=5", "=0"), "minutes is 0", 'exercise="double"', "double"),
    "two gaps": (END, f"{END}\n    ### BEGIN SOLUTION\n    return 2 * n\n    ### END SOLUTION", "2 solution regions", None, "double"),
    "no gap": ("    ### BEGIN SOLUTION\n    return [double(number) for number in numbers]\n    ### END SOLUTION", "    return []", "no solution region", SCALE, "scale-all"),
    "heading that skips a level": ("# ### Lists", "# #### Lists", "heading `#### Lists` skips a level; at most ### here", "# #### Lists", "scale-text"),
    "no first heading": ("# # A lab", "# ## A lab", "the first heading of a lab is `# ...`", "# ## A lab", "title"),
    "image without alt text": ("![A number line with two points]", "![ ]", "image without alt text", "![ ]", "double-text"),
    "img without alt text": ("![A number line with two points](attachment:line.png)", '<img src="x.png" alt="">', "image without alt text", "<img", "double-text"),
    "hints missing": (f"# ### Lists\n#\n{HINTS}", "# ### Lists", "0 folded hints before the exercise, expected 3", SCALE, "scale-all"),
    "a hint missing": ("attachment:line.png)\n#\n# <details><summary>Hint 1: a step</summary>Words.</details>", "attachment:line.png)\n#", "2 folded hints", HEADER, "double"),
    "unknown placeholder": ("{{lab.minutes}}", "{{lab.minuets}}", "unknown placeholder {{lab.minuets}}", 'id="title"', "title"),
    "placeholder that is none": ("{{lab.minutes}}", "{{ }}", "unknown placeholder at `{{ }}", 'id="title"', "title"),
    "placeholder of no exercise": ("{{lab.minutes}}", "{{minutes: treble}}", "no exercise has that id; expected one of double, scale-all", 'id="title"', "title"),
    "term that the glossary lacks": ("{{lab.minutes}}", "{{glossary: no such term}}", "the glossary has no term 'no such term'", 'id="title"', "title"),
    "unknown placeholder in code": ("offset = 7", 'offset = "{{lab.minuets}}"', "unknown placeholder {{lab.minuets}}", 'id="set-up"', "set-up"),
    "unknown attribute": (HEADER, HEADER.replace("minutes", "minute"), "unknown attribute in the cell header: minute", 'minute=5', None),
    "attribute that does not parse": (HEADER, HEADER.replace('"core"', "core"), "unknown attribute in the cell header", "level=core", None),
    "two roles": (CHECK, f'{CHECK} exercise="double"', "says exercise and check", 'points=2 exercise', None),
    "instructor false": ('instructor="true"', 'instructor="false"', "instructor='false': expected \"true\"", 'instructor="false"', None),
    "test ends in a semicolon": (HIDDEN, HIDDEN.replace(")\n", ");\n"), "the hidden test ends in `;`", "grading_seed());", "double-check"),
    "visible test ends in a semicolon": (VISIBLE, VISIBLE.replace(")\n", ")  ; \n"), "the visible test ends in `;`", "# check: double", "double-check"),
    "test is a constant": (HIDDEN, f"score = {HIDDEN}2.0\n", "the hidden test must end in the call of the check", "score = ", "double-check"),
    "test is an assignment": (VISIBLE, f"score = {VISIBLE}", "the visible test must end in the call of the check", "# check: double", "double-check"),
    "test shows another call": (HIDDEN, "print(checks.grading_seed())\nfloat(2)\n", "the hidden test must pass `double` to the check", "print(", "double-check"),
    "visible test of another function": (VISIBLE, "checks.double(abs)\n", "the visible test must pass `double` to the check", "# check: double", "double-check"),
    "test with the visible seed": (HIDDEN, "checks.double(double)\n", "has to use `seed=checks.grading_seed()`", "### BEGIN HIDDEN TESTS", "double-check"),
    "no hidden tests": (f"{BEGIN_HIDDEN}\n{END_HIDDEN}", VISIBLE, "0 hidden test regions; expected one", CHECK, "double-check"),
    "text after the hidden tests": (END_HIDDEN, f"{END_HIDDEN}\nprint(1)", "text after the hidden tests", None, "double-check"),
    "not Python": ("offset = 7", "offset = = 7", "not valid Python", "offset = = 7", "set-up"),
    "no parameters": (' tags=["parameters"]', "", '0 cells are tagged "parameters"', None, None),
    "no set-up": ('id="set-up"', 'id="imports"', "no set-up cell", None, None),
    "exercise in Markdown": (SCALE, SCALE.replace("# %%", "# %% [markdown]"), "exercise cells are code", 'level="stretch"', "scale-all"),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_each_mistake_is_named_with_its_place(course, name):
    old, new, message, at, cell = BREAKS[name]
    course.replace(old, new)
    found = problems(course)
    said = [p for p in found if message in p.message]
    assert said and all(p.file == f"{NAME}.py" for p in said), [str(p) for p in found]
    if at is not None:
        one(course, message, at, cell)
    elif cell is not None:
        assert cell in [p.cell for p in said] and said[0].line > 0


def test_a_solution_outside_a_function_is_named(course):
    course.replace(
        "    ### BEGIN SOLUTION\n    return [double(number) for number in numbers]\n    ### END SOLUTION",
        "    return []\n\n### BEGIN SOLUTION\nanswer = 1\n### END SOLUTION",
    )
    [problem] = problems(course)
    assert "not inside a function" in problem.message and problem.cell == "scale-all"
    lines = course.source.read_text().split("\n")
    assert problem.line == lines.index("### BEGIN SOLUTION") + 1


def test_a_check_before_its_exercise_is_named(course):
    test = f"{CHECK}\n# check: double\n{BEGIN_HIDDEN}\n{END_HIDDEN}\n"
    course.replace(test, "").replace(HEADER, f"{test}\n{HEADER}")
    one(course, "this check stands before its exercise", CHECK, "double-check")


def test_a_check_that_labkit_does_not_know_is_named(course):
    checks = {name: check for name, check in course.lab.checks.items() if name != "double"}
    one(course, "no Check is called 'double' in labkit.checks; there are: scale-all", CHECK, "double-check", checks)


def test_a_check_without_an_exercise_is_named(course):
    checks = {**course.lab.checks, "treble": course.lab.checks["double"]}
    one(course, "labkit.checks has a Check 'treble', but no cell here is its exercise", None, None, checks)


def more_exercises(course, count: int, level: str):
    text = course.source.read_text()
    start, end = text.index('# %% [markdown] id="scale-text"'), text.index('# %% [markdown] id="end"')
    block = text[start:end]
    checks = dict(course.lab.checks)
    for n in range(count):
        more = block.replace("scale-text", f"text-{n}").replace("scale-all", f"more-{n}").replace('"stretch"', f'"{level}"')
        text += "\n" + more.replace("### Lists", "### More")
        checks[f"more-{n}"] = checks["scale-all"]
    course.source.write_text(text)
    return checks


def test_five_core_exercises_fit_and_a_sixth_is_named(course):
    read_source(course.source, COURSE, checks=more_exercises(course, 4, "core"))
    write = course.source.read_text()
    course.source.write_text(write.replace('exercise="scale-all" level="stretch"', 'exercise="scale-all" level="core"'))
    checks = {**course.lab.checks, **{f"more-{n}": course.lab.checks["scale-all"] for n in range(4)}}
    one(course, '6 core exercises, at most 5 fit a lab; make this one level="stretch"', 'exercise="more-3"', "more-3", checks)


def test_stretch_exercises_do_not_count(course):
    read_source(course.source, COURSE, checks=more_exercises(course, 8, "stretch"))


def test_all_problems_are_told_at_once_in_the_order_of_the_file(course):
    course.replace("# ### Lists", "# ##### Lists").replace("# exercise: double", "# exercise: x").replace(
        SCALE, SCALE.replace("7", "-1")
    )
    found = problems(course)
    assert len(found) == 3 and [p.line for p in found] == sorted(p.line for p in found)


def test_text_before_the_first_header_is_refused(course):
    course.source.write_text("x = 1\n\n" + course.source.read_text())
    [problem] = problems(course)
    assert "text before the first header" in problem.message and problem.line == 1


# What becomes of a source


def test_every_cell_keeps_its_metadata_for_nbgrader_and_its_id_twice(course):
    student = course.lab.student
    assert all(cell.metadata["id"] == cell.id for cell in student.cells)
    marks = {
        c.id: dict(c.metadata.nbgrader) for c in student.cells if "nbgrader" in c.metadata and "checksum" in c.metadata.nbgrader
    }
    for name in ("double", "scale-all"):
        answer, test = marks[name], marks[f"{name}-check"]
        assert (answer["grade"], answer["solution"], answer["locked"], answer["grade_id"], answer["schema_version"]) == (
            False,
            True,
            False,
            name,
            3,
        )
        assert (test["grade"], test["solution"], test["locked"], test["grade_id"], test["points"]) == (
            True,
            False,
            True,
            f"{name}-check",
            {"double": 2, "scale-all": 3}[name],
        )
        assert all(re.fullmatch("[0-9a-f]{32}", m["checksum"]) for m in (answer, test))


def test_the_checksum_is_nbgraders_own_of_what_is_released(course):
    from nbgrader.utils import compute_checksum

    for cell in course.lab.student.cells:
        if "checksum" in cell.metadata.get("nbgrader", {}):
            assert cell.metadata.nbgrader["checksum"] == compute_checksum(cell)


def test_the_student_notebook_holds_gap_docstring_anchor_and_visible_test_only(course):
    cells = {c.id: c for c in course.lab.student.cells}
    assert cells["scale-all"].source.split("\n") == [
        "# exercise: scale-all", "def scale_all(numbers):", '    """Twice each number of a list.', "", "    >>> scale_all([4])", "    [8]", '    """',
        "    # YOUR CODE HERE", "    raise NotImplementedError()",
    ]  # fmt: skip
    assert cells["double-check"].source == "# check: double\nchecks.double(double)"
    assert "for-instructors" not in cells


def test_placeholders_come_from_the_course_and_the_exercises(course):
    title = course.lab.student.cells[0].source
    assert "About 5 minutes" in title  # the core exercise; the stretch one is not counted
    assert f"github.com/OWNER/REPO-student/blob/v9.9.9/labs/{NAME}.ipynb" in title and "OWNER/REPO/" not in title


def test_a_magic_under_a_guard_becomes_a_magic(course):
    [setup] = [c for c in course.lab.student.cells if c.id == "set-up"]
    assert "\n    %pip install --no-deps https://" in setup.source


def test_braces_of_an_f_string_are_no_placeholder(course):
    course.replace("offset = 7", 'offset = 7\nshown = f"{{offset}} {{ok: 1}}"')
    [setup] = [c for c in course.lab.master.cells if c.id == "set-up"]
    assert 'f"{{offset}} {{ok: 1}}"' in setup.source


def test_ids_without_an_attribute_follow_the_headings(course):
    course.replace('# %% id="picture"', "# %%").replace('# %% [markdown] id="end"', "# %% [markdown]")
    ids = [c.id for c in course.lab.master.cells]
    assert ids[7] == "numbers-1" and ids[-1] == "what-you-can-do-now-1"


def test_making_the_student_notebook_leaves_the_master_alone(course):
    master = course.lab.master
    before = str(master)
    student_notebook(master)
    assert str(master) == before


def test_written_answers_need_their_anchor_and_points(course):
    text = '# %% [markdown] written="why" points=4\n# **written: why** Say why.\n#\n# ### BEGIN SOLUTION\n# Because.\n# ### END SOLUTION\n'
    course.source.write_text(course.source.read_text() + "\n" + text)
    [cell] = [c for c in course.lab.student.cells if c.id == "why"]
    assert (
        "Because" not in cell.source
        and cell.metadata.nbgrader["grade"]
        and cell.metadata.nbgrader["solution"]
        and cell.metadata.nbgrader["points"] == 4
    )
    course.replace("written: why", "written: how")
    one(course, "the first line must show `written: why`", "written: how", "why")
    course.replace("written: how", "written: why").replace('written="why" points=4', 'written="why"')
    one(course, "points is None; expected a number above 0", 'written="why"', "why")


# Marks


def edits(word: str, alphabet: str):
    """Every word at edit distance 1: a letter dropped, doubled or inserted, replaced, or swapped with its neighbour."""
    for i in range(len(word) + 1):
        for letter in alphabet:
            yield word[:i] + letter + word[i:]
        if i < len(word):
            yield word[:i] + word[i + 1 :]
            for letter in alphabet:
                yield word[:i] + letter + word[i + 1 :]
        if i + 1 < len(word):
            yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]


MARKS = [(kind, edge, mark) for kind, pair in REGIONS.items() for edge, mark in zip(("BEGIN", "END"), pair, strict=True)]


@pytest.mark.parametrize("kind, edge, mark", MARKS)
def test_every_slip_in_one_word_of_a_mark_is_found(kind, edge, mark):
    words = mark.split()
    for position, word in enumerate(words):
        for slip in set(edits(word, string.ascii_uppercase + "01 -_")):
            text = " ".join([*words[:position], slip, *words[position + 1 :]])
            for line in (f"    ### {text}", f"### {text.lower()}", f"x = 1  # {text}"):
                found = [(d.kind, d.edge) for d in find_delimiters(line)]
                assert found == [(kind, edge)], line


@given(st.sampled_from(MARKS), st.data())
@settings(max_examples=300)
def test_a_slip_in_every_word_at_once_is_found(chosen, data):
    kind, edge, mark = chosen
    slips = [data.draw(st.sampled_from(sorted(set(edits(word, string.ascii_uppercase))))) for word in mark.split()]
    assert [(d.kind, d.edge, d.exact) for d in find_delimiters(f"    ### {' '.join(slips)}")] == [(kind, edge, False)]


@given(
    st.sampled_from(MARKS),
    st.sampled_from([" ", "  ", "_", "-", "\t", ""]),
    st.sampled_from([str.lower, str.title, str.upper]),
    st.sampled_from(["# ", "#", "### ", "<!-- ", "> ", ""]),
)
def test_other_separators_letters_and_comment_signs_are_found(chosen, separator, letters, sign):
    kind, edge, mark = chosen
    [found] = find_delimiters(sign + letters(separator.join(mark.split())))
    assert (found.kind, found.edge) == (kind, edge)
    assert found.exact == (separator == " " and letters is str.upper)


@pytest.mark.parametrize(
    "prose",
    [
        "the hidden cost begins here", "End of solution discussion", "## End of the solution", "# Hidden tests", "# and solution", "# The hidden tests begin here.",
        "Begin with the solution that you have.", "# mark scheme", "At the END the SOLUTION is hidden", "A hidden test is a test that you do not see.", "# HIDDEN TESTS",
        "BEGIN at the top, END at the bottom", "# begin here", "end", "# beginning of the solution space", "### Ends and means", "I send solutions to nobody",
    ],
)  # fmt: skip
def test_prose_is_no_mark(prose):
    assert find_delimiters(prose) == []


def test_marks_beside_other_text_are_found():
    for line in (
        "### BEGIN HIDDEN TEST (not shown)",
        "print('BEGIN HIDEN TESTS')",
        "<!-- END SOLUTON --><p>text</p>",
        "NOTE BEGIN SOLUTIONS",
    ):
        assert len(find_delimiters(line)) == 1, line


@given(
    st.lists(
        st.sampled_from(["x = 1", "### BEGIN SOLUTION", "### END SOLUTION", "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"]),
        max_size=8,
    )
)
def test_regions_balance_or_are_refused_with_a_line(lines):
    text, depth, balanced = "\n".join(lines), None, True
    for line in lines:
        mark = re.match(r"### (BEGIN|END) (.*)", line)
        if mark and mark[1] == "BEGIN":
            balanced, depth = balanced and depth is None, mark[2]
        elif mark:
            balanced, depth = balanced and depth == mark[2], None
    balanced = balanced and depth is None
    if balanced:
        assert len(regions(text)) == text.count("BEGIN")
        rest = without_regions(text)
        assert "#" not in rest and rest.count("x = 1") + sum(r.lines.count("x = 1") for r in regions(text)) == lines.count("x = 1")
    else:
        with pytest.raises(ValueError, match=r"^line \d+: "):
            regions(text)
