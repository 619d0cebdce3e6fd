"""A run in a notebook: its progress is shown in place, and nothing is written to standard error, which would be red."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from tiny import TinyTranslator

from regard.config.loading import render_config
from regard.training import callbacks, fit, progress
from regard.training.progress import Lines, Reporter, build_reporter, in_notebook


class Shown:
    """What `display` was called with, and what took its place later."""

    def __init__(self, first):
        self.states = [first]

    def update(self, value):
        self.states.append(value)


@pytest.fixture
def kernel(monkeypatch):
    """IPython as far as it is used, with what it was told to show."""
    shown = []

    def display(value, *, display_id):
        assert display_id is True
        shown.append(Shown(value))
        return shown[-1]

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    ipython.version_info = (9, 0)  # matplotlib looks at it
    displays.display = display
    displays.HTML = lambda text: SimpleNamespace(html=text)
    displays.Image = lambda data, format: SimpleNamespace(data=data, format=format)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    monkeypatch.setattr(progress, "_BAR_EVERY", 0.0)
    monkeypatch.setattr(progress, "_CURVES_EVERY", 0.0)
    monkeypatch.setattr(callbacks, "LOGGED_EVERY", 4)
    return shown


def test_a_run_shows_a_bar_and_live_curves(config, kernel, capfd):
    fit(config, model=TinyTranslator)
    out, err = capfd.readouterr()
    assert err == ""
    assert "pairs to train on" in out
    assert "epoch 1, update" in out
    bar, curves = kernel
    assert "<progress max=" in bar.states[1].html
    last = bar.states[-1].html
    assert len(bar.states) > 10
    total = last.partition('max="')[2].partition('"')[0]
    assert f'value="{total}"' in last
    pictures = [state.data for state in curves.states[1:]]
    assert len(pictures) > 3, "the curves grow while it trains"
    assert len(set(pictures)) == len(pictures)
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)


def test_without_progress_nothing_is_shown(config, change, kernel, capfd):
    fit(change(config, max_epochs=1), model=TinyTranslator, progress=False)
    assert kernel == []
    assert capfd.readouterr() == ("", "")
    assert type(build_reporter(progress=False)) is Reporter


def test_an_ipython_without_a_kernel_is_a_terminal(monkeypatch):
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not in_notebook()
    ipython.get_ipython = lambda: None
    assert not in_notebook()
    assert isinstance(build_reporter(progress=True), Lines)


CELL = """
from regard.config.loading import load_config, parse_layer
from regard.training import fit
model = fit(load_config(parse_layer({settings!r}, "cell")))
"""


@pytest.mark.slow
def test_in_a_real_kernel(config, change, tmp_path):
    """Standard error stays empty, and the display is updated."""
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client.manager")
    settings = render_config(change(config, max_epochs=2)).replace("_size: 256", "_size: 8")
    runner, client = manager.start_new_kernel(kernel_name="python3", startup_timeout=300, cwd=str(tmp_path))
    streams, updates, failed = [], 0, []
    try:
        client.execute(CELL.format(settings=settings))
        while True:
            message = client.get_iopub_msg(timeout=300)
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                streams.append(content["name"])
            failed += [content] * (kind == "error")
            updates += kind == "update_display_data" and "image/png" in content["data"]
            if kind == "status" and content["execution_state"] == "idle":
                break
    finally:
        client.stop_channels()
        runner.shutdown_kernel(now=True)
    assert failed == []
    assert set(streams) == {"stdout"}
    assert updates >= 1
