"""Figures: text and table with every picture, the same bytes every time, nothing left open."""

import base64
import io

import matplotlib.image
import pytest

from labkit.bench import VirtualDevice
from labkit.plots import timing
from labkit.plots.style import KIND_HATCH, PALETTE, figure, figure_with_text


def naive_timeline():
    device = VirtualDevice()
    work = device.work("matmul", 4e-5)
    device.now()
    work()
    device.now()
    device.synchronize()
    device.now()
    return timing.timeline(device, title="The timer stops too early")


FIGURES = {
    "timeline": naive_timeline,
    "samples": lambda: timing.samples({"calls": [8e-2, 2e-4, 1e-4]}, title="Slow <first> call", truth=1e-4, mark={"mean": 0.0268}),
    "bars": lambda: timing.bars({"naive": 5e-6, "right": 1e-4}, title="Off by 20", truth=1e-4),
    "kinds": lambda: timing.bars(
        {"here": 5.0, "paper": 4.0},
        title="Speed",
        unit="GB/s",
        quantity="bandwidth",
        kinds={"here": "measured", "paper": "published"},
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_one_display_with_picture_alt_text_and_table(name):
    made = FIGURES[name]()
    data, metadata = made._repr_mimebundle_()
    assert matplotlib.image.imread(io.BytesIO(base64.b64decode(data["image/png"]))).shape[1] > 500
    assert metadata["image/png"]["alt"] == made.alt and made.alt in repr(made)
    assert 'alt="' in data["text/html"] and "<table>" in data["text/html"] and data["text/html"].count("<img") == 1
    assert "<first>" not in data["text/html"]
    assert len(made.table) >= 2


@pytest.mark.parametrize("name", FIGURES)
def test_same_figure_gives_the_same_bytes(name):
    assert FIGURES[name]().png == FIGURES[name]().png
    assert b"Software" not in FIGURES[name]().png and b"Matplotlib" not in FIGURES[name]().png


def test_figures_stay_out_of_pyplot_and_out_of_the_learners_settings():
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    for make in FIGURES.values():
        make()
    assert plt.get_fignums() == [] and dict(matplotlib.rcParams) == before


def test_background_is_solid():
    picture = matplotlib.image.imread(io.BytesIO(naive_timeline().png))
    assert picture.shape[2] == 3 or picture[..., 3].min() == 1.0
    assert tuple(picture[0, 0, :3]) == (1.0, 1.0, 1.0)


def test_text_is_at_least_nine_points():
    from matplotlib.text import Text

    sizes = []
    original = timing.figure_with_text

    def note(fig, alt, table):
        sizes.extend(text.get_fontsize() for text in fig.findobj(Text) if text.get_text())
        return original(fig, alt, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "figure_with_text", note)
        for make in FIGURES.values():
            make()
    assert len(sizes) > 30 and min(sizes) >= 9


def test_kinds_differ_without_colour():
    assert len(set(KIND_HATCH.values())) == len(KIND_HATCH) == 4
    assert len(set(PALETTE)) == len(PALETTE)


def test_timeline_tells_what_host_and_device_did_and_when():
    made = naive_timeline()
    ends = {(row["lane"], row["what"]): row["stop"] for row in made.table}
    assert (
        ends["host", "launch matmul"] == "5 us"
        and ends["device", "kernel matmul"] == "45 us"
        and ends["host", "synchronize"] == "45 us"
    )
    assert "1 launch and 1 wait" in made.alt and "the clock is read 3 times" in made.alt


def test_samples_table_has_the_lines_and_the_medians():
    rows = {row["series"]: row["median"] for row in FIGURES["samples"]().table}
    assert rows == {"calls": "200 us", "line: truth": "100 us", "line: mean": "26800 us"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: timing.timeline(VirtualDevice(), title="x"), "nothing happened"),
        (lambda: timing.samples({}, title="x"), "series is empty"),
        (lambda: timing.bars({}, title="x"), "values is empty"),
        (lambda: timing.bars({"a": 1.0}, title="x", kinds={"a": "guessed"}), "guessed"),
        (lambda: timing.bars({"a": 1.0}, title=" "), "title is empty"),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_figure_without_alt_text_or_with_a_ragged_table_is_refused():
    with figure() as (fig, _), pytest.raises(ValueError, match="alt is empty"):
        figure_with_text(fig, " ", [])
    with figure() as (fig, _), pytest.raises(ValueError, match="columns"):
        figure_with_text(fig, "x", [{"a": 1}, {"b": 1}])


def test_table_may_be_a_frame():
    import pandas

    with figure() as (fig, _):
        made = figure_with_text(fig, "x", pandas.DataFrame({"a": [1, 2]}))
    assert made.table == ({"a": 1}, {"a": 2})
