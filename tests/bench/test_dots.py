"""The ratio plot shows each reading over its truth, in the picture's table and in words."""

import pytest

from labkit.plots.dots import over_truth


def test_table_and_alt_text_carry_the_ratios():
    made = over_truth(
        {"naive": {"a": 5e-6, "b": 5e-6}, "yours": {"a": 1e-4, "b": 1e-3}}, {"a": 1e-4, "b": 1e-3}, title="Naive is wrong"
    )
    assert made.table == ({"case": "a", "naive": "0.05 x", "yours": "1 x"}, {"case": "b", "naive": "0.005 x", "yours": "1 x"})
    assert "naive: a 0.05, b 0.005" in made.alt and made.png.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "readings, truths, message",
    [({}, {"a": 1}, "nothing to show"), ({"s": {"a": 1}}, {"b": 1}, "has the cases"), ({"s": {"a": 0}}, {"a": 1}, "above 0")],
)
def test_what_has_no_ratio_is_an_error(readings, truths, message):
    with pytest.raises(ValueError, match=message):
        over_truth(readings, truths, title="t")
