"""The check protocol: running and judging are apart, and nothing a learner's function does breaks the judging."""

import json
import sys
import threading

import pytest

from labkit import guard
from labkit.checks import session
from labkit.checks.protocol import Case, Cause, Check, Device, Work, grading_seed, run_case


def doubling(**more):
    def generate(rng):
        return [Case("small", "numbers", (rng.randint(1, 9),)), Case("zero", "edges", (0,)), Case("list", "edges", ([1, 2],))]

    def compare(case, outcome, expected):
        return None if outcome["value"] == expected else f"got {outcome['value']}, expected {expected}."

    options = {
        "exercise": "double",
        "function": "double",
        "groups": {"numbers": 1.0, "edges": 1.0},
        "generate": generate,
        "reference": lambda case: case.args[0] * 2,
        "compare": compare,
        "causes": (Cause(lambda c, o, e: o["value"] == c.args[0] ** 2, "That is the square."),),
        **more,
    }
    return Check(**options)


@pytest.fixture(autouse=True)
def fresh_session():
    session.forget()
    yield
    session.forget()


def test_a_right_function_earns_all_points():
    assert doubling()(lambda x: x * 2) == 2.0


def test_a_group_counts_only_when_those_before_it_are_right():
    edges_only = doubling()(lambda x: x * 2 if x in (0, [1, 2]) else 1)
    assert edges_only == 0.0
    numbers_only = doubling()(lambda x: x * 2 if isinstance(x, int) and x else None)
    assert numbers_only == 1.0 and numbers_only.status == "partial"


def test_the_reply_says_what_was_tested_got_expected_and_a_cause():
    score = doubling()(lambda x: x**2 if isinstance(x, int) else x * 2, seed=3)
    case = doubling().cases(3)[0]
    assert score.messages[0] == f"small: got {case.args[0] ** 2}, expected {case.args[0] * 2}. That is the square."


def test_a_stub_waits_and_earns_nothing():
    def double(x):
        raise NotImplementedError()

    score = doubling()(double)
    assert score == 0.0 and score.status == "waiting" and "not written yet" in score.messages[0]


def test_a_function_that_refuses_one_case_is_not_a_stub():
    def double(x):
        if x == 0:
            raise NotImplementedError()
        return x * 2

    assert doubling()(double).status == "partial"


@pytest.mark.parametrize(
    "bad",
    [lambda x: 1 / 0, lambda x: sys.exit(0), lambda x: object(), lambda: 1, lambda x: (_ for _ in ()).throw(BaseException("odd"))],
)
def test_whatever_the_function_does_the_check_scores_it(bad):
    score = doubling()(bad)
    assert score == 0.0 and score.messages


def test_an_object_that_equals_everything_earns_nothing():
    class Yes:
        def __eq__(self, other):
            return True

    assert doubling()(lambda x: Yes()) == 0.0


def test_the_error_names_the_learners_line(tmp_path):
    source = tmp_path / "answer.py"
    source.write_text("def double(x):\n    return x.missing_attribute\n")
    namespace = {}
    exec(compile(source.read_text(), str(source), "exec"), namespace)
    assert "return x.missing_attribute" in doubling()(namespace["double"]).messages[0]


def test_arguments_are_copies():
    def greedy(x):
        if isinstance(x, list):
            x.extend(x)
            return x
        return x * 2

    check = doubling()
    assert check(greedy) == 2.0 and check(greedy) == 2.0


def test_cases_of_a_seed_are_always_the_same_and_seeds_differ():
    assert [c.to_json() for c in doubling().cases(7)] == [c.to_json() for c in doubling().cases(7)]
    assert len({doubling().cases(seed)[0].args[0] for seed in range(30)}) > 3


def test_a_case_survives_json_and_gives_the_same_outcome_elsewhere():
    case = Case(
        "device",
        "g",
        (Work("k"), Device(), (1, 2)),
        {"limit": 3},
        device={"launch_s": 1e-6, "seed": 4},
        works={"k": {"seconds": 1e-3}},
        before=("k",),
    )
    back = Case.from_json(case.to_json())
    assert back == case

    def look(work, device, pair, limit):
        work()
        device.synchronize()
        return [device.now(), pair, limit]

    assert json.dumps(run_case(case, look)) == json.dumps(run_case(back, look))
    assert run_case(case, look)["device"]["launches"] == {"k": 2}


def test_groups_and_cases_must_belong_together():
    with pytest.raises(ValueError, match="without points.*edges"):
        doubling(groups={"numbers": 1.0}).cases()
    with pytest.raises(ValueError, match="without a case.*other"):
        doubling(groups={"numbers": 1.0, "edges": 1.0, "other": 1.0}).cases()


def test_outcomes_that_do_not_match_the_cases_are_refused():
    check = doubling()
    with pytest.raises(ValueError, match="3 cases but 1 outcomes"):
        check.score(check.cases(), [{"value": 2}])


def test_no_function_at_all_is_said(capsys):
    score = doubling()(None)
    assert score == 0.0 and "expected the function `double`" in score.messages[0]


def test_waiting_cells_name_what_is_missing(capsys):
    assert session.ready("double") is False
    assert "double (its check has not run)" in capsys.readouterr().out
    doubling()(lambda x: None)
    assert session.ready("double") is False
    assert "double (not yet)" in capsys.readouterr().out
    doubling()(lambda x: x * 2 if isinstance(x, int) and x else None)
    assert session.ready("double") is True
    assert capsys.readouterr().out == ""


def test_the_twin_refuses_only_while_its_exercise_is_checked():
    @guard.twin("double")
    def library_double(x):
        return x * 2

    score = doubling()(lambda x: library_double(x))
    assert score == 0.0 and "library's version of exercise `double`" in score.messages[0]
    assert library_double(2) == 4
    guard.TWINS.pop("double")


def test_a_thread_does_not_get_around_the_guard():
    @guard.twin("double")
    def library_double(x):
        return x * 2

    def sneaky(x):
        found = []

        def call():
            try:
                found.append(library_double(x))
            except guard.TwinRefused:
                found.append("refused")

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return found[0]

    assert doubling()(sneaky) == 0.0
    guard.TWINS.pop("double")


def test_the_grading_seed_is_the_instructors(monkeypatch):
    monkeypatch.setenv("LABKIT_GRADING_SEED", "77")
    assert grading_seed() == 77
    monkeypatch.setenv("LABKIT_GRADING_SEED", "secret")
    with pytest.raises(ValueError, match="LABKIT_GRADING_SEED must be an integer, got 'secret'"):
        grading_seed()


def test_the_hand_in_lists_every_exercise():
    check = doubling()
    other = doubling(exercise="triple")
    check(lambda x: x * 2)
    page = session.hand_in("lab9_demo", {"double": check, "triple": other})
    assert page.points == 2.0 and page.maximum == 4.0
    assert "triple: its check has not run, 0 of 2" in repr(page) and "lab9_demo.ipynb" in page._repr_html_()
