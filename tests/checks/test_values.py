"""Plain values cross a process boundary as JSON; nothing else does."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.checks.values import NotPlain, decode, encode, short

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda children: (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), children, max_size=4)
    ),
    max_leaves=20,
)


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b


@given(plain)
def test_plain_values_survive_json(value):
    assert same(decode(json.loads(json.dumps(encode(value), allow_nan=False))), value)


def test_nan_and_infinity_survive_strict_json():
    back = decode(json.loads(json.dumps(encode([math.nan, math.inf, -math.inf]), allow_nan=False)))
    assert math.isnan(back[0]) and back[1:] == [math.inf, -math.inf]


class AlwaysEqual:
    def __eq__(self, other):
        return True


class SubFloat(float):
    pass


@pytest.mark.parametrize("value", [AlwaysEqual(), SubFloat(1.0), {1, 2}, object, lambda: 1, [AlwaysEqual()], {"a": SubFloat(2)}])
def test_other_types_are_refused_by_name(value):
    with pytest.raises(NotPlain, match="type"):
        encode(value)


def test_a_list_that_contains_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(NotPlain, match="20 levels"):
        encode(value)


def test_numpy_scalars_become_python_numbers_and_arrays_keep_dtype_and_shape():
    assert encode(np.float64(0.5)) == 0.5 and type(encode(np.int32(3))) is int
    assert decode(encode(np.zeros((2, 3), dtype=np.float32))) == {"data": [[0.0] * 3] * 2, "dtype": "float32", "shape": (2, 3)}


def test_a_tensor_keeps_dtype_and_shape():
    torch = pytest.importorskip("torch")
    got = decode(encode(torch.ones(2, dtype=torch.bfloat16, requires_grad=True)))
    assert got == {"data": [1.0, 1.0], "dtype": "bfloat16", "shape": (2,)}


def test_short_is_what_a_learner_can_read():
    assert short(1 / 3) == "0.333333"
    assert short(list(range(50))) == "[0, 1, 2, 3, 4, 5, 6, 7, ... (50 in all)]"
    assert short((1,)) == "(1,)"
    assert len(short("x" * 500)) == 80
