"""A sweep keeps what it has: interrupted, resumed, refused where mixing would be silent."""

import subprocess
import sys
import textwrap

import pytest

from labkit.bench import DamagedFile, Measurement, VirtualDevice, sweep
from labkit.bench.sweeping import OtherEnvironment

POINTS = [{"n": 1, "dtype": "float32"}, {"n": 2, "dtype": "float32"}, {"n": 3, "dtype": "float16"}, {"n": 4, "dtype": "float16"}]


class Maker:
    """Makes the work of a point, notes it, and is interrupted once at `stop_at`."""

    def __init__(self, stop_at=None, error=KeyboardInterrupt):
        self.device, self.made, self.finished, self.stop_at, self.error = VirtualDevice(), [], [], stop_at, error

    def __call__(self, n, dtype):
        self.made.append(n)
        work = self.device.work(f"n{n}", 1e-4 * n, dtype=dtype)

        def run():
            # In the middle of a measurement, as a learner's stop button is.
            if n == self.stop_at and self.device.report()["launches"].get(f"n{n}", 0) > 5:
                self.stop_at = None
                raise self.error
            work()

        return run


def test_all_points_are_measured_in_order_and_shown(ideal):
    maker = Maker()
    result = sweep(POINTS, maker, device=maker.device)
    assert result.complete and result.remaining == () and result.points == tuple(POINTS)
    assert [m.median for _, m in result] == pytest.approx([1e-4, 2e-4, 3e-4, 4e-4], rel=0.06)
    assert result[{"n": 2, "dtype": "float32"}].label == "n=2, dtype=float32"
    assert "complete" in repr(result) and "n=" not in repr(result).splitlines()[1]
    assert result._repr_html_().count("<tr>") == 5 and 'scope="col"' in result._repr_html_()


@pytest.mark.parametrize("stored", [True, False])
def test_interrupt_inside_a_point_keeps_the_finished_ones(tmp_path, capsys, stored):
    maker = Maker(stop_at=3)
    result = sweep(POINTS, maker, device=maker.device, path=tmp_path / "s.json" if stored else None)
    assert not result.complete and result.points == tuple(POINTS[:2]) and result.remaining == tuple(POINTS[2:])
    out, err = capsys.readouterr()
    assert "2 of 4 points are kept" in out and err == ""
    with pytest.raises(KeyError, match="not measured yet"):
        result[POINTS[3]]


def test_second_call_resumes_and_does_no_point_twice(tmp_path):
    path = tmp_path / "deep" / "s.json"
    maker = Maker(stop_at=3)
    first = sweep(POINTS, maker, device=maker.device, path=path)
    second = sweep(POINTS, maker, device=maker.device, path=path)
    assert maker.made == [1, 2, 3, 3, 4]  # 3 was not finished the first time
    assert second.complete and second.measurements[:2] == first.measurements
    third = sweep(POINTS[::-1], maker, device=maker.device, path=path)
    assert maker.made == [1, 2, 3, 3, 4] and third.measurements == second.measurements[::-1]


def test_finished_points_survive_a_killed_process(tmp_path):
    path = tmp_path / "s.json"
    code = f"""
    import os
    from labkit.bench import VirtualDevice, sweep
    device = VirtualDevice()
    def make(n):
        if n == 3:
            os._exit(9)
        return device.work("w", 1e-4 * n)
    sweep([{{"n": n}} for n in (1, 2, 3)], make, device=device, path={str(path)!r})
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False).returncode == 9
    device, made = VirtualDevice(), []
    result = sweep([{"n": n} for n in (1, 2, 3)], lambda n: made.append(n) or device.work("w", 1e-4 * n), device=device, path=path)
    assert made == [3] and result.complete


def test_error_in_a_point_passes_on_with_the_point_and_keeps_the_file(tmp_path):
    maker = Maker(stop_at=2, error=ZeroDivisionError)
    with pytest.raises(ZeroDivisionError) as caught:
        sweep(POINTS, maker, device=maker.device, path=tmp_path / "s.json")
    assert "n=2, dtype=float32" in caught.value.__notes__[0]
    assert sweep(POINTS, maker, device=maker.device, path=tmp_path / "s.json").complete
    assert maker.made == [1, 2, 2, 3, 4]


def test_file_of_another_environment_or_other_threads_is_refused_unless_accepted(tmp_path):
    path = tmp_path / "s.json"
    maker = Maker()
    sweep(POINTS[:2], maker, device=maker.device, path=path)
    with pytest.raises(OtherEnvironment, match="threads was 1, is 4"):
        sweep(POINTS, maker, device=maker.device, threads=4, path=path)
    other = VirtualDevice(launch_s=1e-6)
    with pytest.raises(OtherEnvironment, match="virtual_device was"):
        sweep(POINTS, maker, device=other, path=path)
    assert sweep(POINTS, maker, device=maker.device, threads=4, path=path, accept_other_environment=True).complete
    assert maker.made == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[:100], lambda text: text.replace('"points"', '"point"'), lambda text: text.replace('"samples"', '"s"')],
)
def test_damaged_file_is_an_error_and_is_left_alone(tmp_path, damage):
    path = tmp_path / "s.json"
    maker = Maker()
    sweep(POINTS[:1], maker, device=maker.device, path=path)
    path.write_text(damage(path.read_text()))
    damaged = path.read_text()
    with pytest.raises(DamagedFile, match="s.json"):
        sweep(POINTS, maker, device=maker.device, path=path)
    assert path.read_text() == damaged


def test_bad_points_and_bad_work_are_refused():
    for points, said in (([], "empty"), ([{"n": 1}, {"n": 1}], "twice"), ([3], r"points\[0\]"), ([{"n": [1]}], "expected a name")):
        with pytest.raises(ValueError, match=said):
            sweep(points, lambda n: None)
    with pytest.raises(TypeError, match="make returned int"):
        sweep([{"n": 1}], lambda n: 3)


def test_make_may_measure_for_itself():
    made = Measurement("own", [1.0], kind="published", source="a paper")
    assert sweep([{"n": 1}], lambda n: made).measurements == (made,)


def test_frame_has_a_row_per_point_and_the_points_columns_win():
    maker = Maker()
    frame = sweep(POINTS, maker, device=maker.device).to_frame()
    assert list(frame.columns) == [
        "n",
        "dtype",
        "median_s",
        "iqr_s",
        "minimum_s",
        "samples",
        "kind",
        "threads",
        "device",
        "caveats",
    ]
    assert list(frame["dtype"]) == ["float32", "float32", "float16", "float16"] and set(frame["kind"]) == {"modelled"}


def test_bar_shows_only_when_someone_looks_and_never_on_stderr(capsys):
    maker = Maker()
    sweep(POINTS[:1], maker, device=maker.device)
    assert capsys.readouterr() == ("", "")
    sweep(POINTS[:1], maker, device=maker.device, progress=True)
    out, err = capsys.readouterr()
    assert "1/1" in out and err == ""
