"""The explorer as an output: every form that a front end may take, and what pages show that have no kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from labkit import paths
from labkit.widgets import explorer
from labkit.widgets.output import VIEW

SOURCE = "from labkit.widgets import explorer\nexplorer(['A100-80', 'TPU-v5e'], model='tiny', tokens=64)"

PRINTS = """import ipywidgets
shown = ipywidgets.Output()
display(shown)
with shown:
    print("into a widget")
"""


def made():
    return explorer(["A100-80", "TPU-v5e"], model="tiny", tokens=64)


def test_an_output_has_all_forms():
    one = made()
    data = one._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html", VIEW}
    assert data[VIEW] == {"version_major": 2, "version_minor": 0, "model_id": one.panel.box.model_id}
    assert "<img " in data["text/html"] and "<table" in data["text/html"] and "modelled time" in data["text/plain"]


def test_without_ipywidgets_there_are_text_and_html(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    data = made()._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"} and "<img " in data["text/html"]
    with pytest.raises(ImportError):
        _ = made().panel


def test_the_static_forms_follow_the_controls():
    one = made()
    one.panel.batch.value = 4
    assert one.exploration.choice.batch == 4 and "batch 4" in repr(one) and "batch 4" in one._repr_html_()
    one.panel.tokens.value = 4096
    assert one.exploration is None and "up to 2048" in repr(one) and "up to 2048" in one._repr_html_()
    assert "<img" not in one._repr_html_()


def test_a_wrong_argument_is_raised():
    with pytest.raises(ValueError, match="tiny"):
        explorer(model="big")
    with pytest.raises(ValueError, match="A100-80"):
        explorer("A1000")


def notebook():
    nbformat = pytest.importorskip("nbformat")
    # The second cell prints into an Output widget, as a progress bar does: a client that keeps no state of widgets stops there.
    cells = [nbformat.v4.new_code_cell(SOURCE, id="explorer"), nbformat.v4.new_code_cell(PRINTS, id="prints")]
    return nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )


def page_of(executed) -> str:
    """What nbconvert makes of the output, the notebook's own source left out."""
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter(template_name="basic", exclude_input=True).from_notebook_node(executed)
    return body


def shows_the_table(page: str) -> bool:
    return "<table" in page and "modelled time" in page and 'alt="tiny decode' in page and VIEW not in page


def test_pages_of_executed_labs_show_picture_and_table(tmp_path):
    nbformat, run = pytest.importorskip("nbformat"), pytest.importorskip("labkit.course.run")
    pytest.importorskip("papermill")
    ran = run.execute("explorer", notebook(), {}, folder=tmp_path / "explorer", cell_timeout=300, timeout=600, unsolved=False)
    assert ran.passed, ran.detail
    assert shows_the_table(page_of(nbformat.read(tmp_path / ran.notebook, as_version=4)))


def test_feedback_shows_picture_and_table():
    preprocessors = pytest.importorskip("nbgrader.preprocessors")
    from traitlets.config.loader import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(paths.repo_root() / "grading")).load_config()
    executed, resources = preprocessors.Execute(config=config).preprocess(notebook(), {"metadata": {"path": str(Path.cwd())}})
    after = config.Autograde.autograde_preprocessors
    for made in after[after.index(preprocessors.Execute) + 1 :][:2]:
        executed, resources = made(config=config).preprocess(executed, resources)
    assert shows_the_table(page_of(executed))
