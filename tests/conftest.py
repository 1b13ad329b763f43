"""What every test needs: subprocesses that find this checkout, and nothing of the user's own Jupyter, IPython or display."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config):
    # Before any test module is imported: jupyter_core and matplotlib read the environment once.
    path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))
    os.environ["MPLBACKEND"] = "agg"
    if "LABKIT_TEST_HOME" not in os.environ:  # workers of xdist share the folder of the process that started them
        config._labkit_home = tempfile.TemporaryDirectory(prefix="labkit-tests-", ignore_cleanup_errors=True)
        os.environ["LABKIT_TEST_HOME"] = config._labkit_home.name
    home = Path(os.environ["LABKIT_TEST_HOME"])
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        folder = home / name.lower()
        folder.mkdir(exist_ok=True)
        os.environ[name] = str(folder)
    if os.environ.get("LABKIT_TEST_SPYRE") == "1":  # every test again, with the simulated device registered
        import labkit.spyre  # noqa: F401
    try:
        from hypothesis import settings
    except ModuleNotFoundError:
        return
    # Time never decides a test; the same examples on every host.
    settings.register_profile("labkit", deadline=None, derandomize=True)
    settings.load_profile("labkit")


def pytest_unconfigure(config):
    home = getattr(config, "_labkit_home", None)
    if home is not None:
        home.cleanup()
