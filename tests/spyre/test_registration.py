"""What registering the device changes in PyTorch, each in a process of its own."""

import subprocess
import sys
import textwrap

import pytest


def run(program: str, tmp_path, **environment):
    import os

    env = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, cwd=tmp_path, env=env, timeout=300
    )


def lines(program: str, tmp_path, **environment) -> list[str]:
    done = run(program, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_only_importing_the_package_registers(tmp_path):
    program = """
        import torch, labkit, labkit.machines, labkit.bench, labkit.graph
        print(torch._C._get_privateuse1_backend_name(), hasattr(torch, "spyre"))
        import labkit.spyre.formats
        print(torch._C._get_privateuse1_backend_name(), torch.spyre.is_available(), torch.device("spyre:0"))
        import labkit.spyre.registration as r
        r.register(); r.register()
    """
    assert lines(program, tmp_path) == ["privateuseone False", "spyre True spyre:0"]


def test_importing_runs_no_parallel_operator_and_loads_no_compiler(tmp_path):
    program = """
        import sys, os, torch
        def threads(): return len(os.listdir("/proc/self/task"))
        before = threads()
        import labkit.spyre
        print(threads() - before, "torch._inductor.compile_fx" in sys.modules, "torch._dynamo" in sys.modules)
    """
    if not sys.platform.startswith("linux"):
        pytest.skip("counts threads in /proc")
    assert lines(program, tmp_path) == ["0 False False"]


def test_benchmarks_of_cpu_code_work_with_the_device_registered(tmp_path):
    program = """
        import torch
        from torch.utils.benchmark import Timer
        import labkit.spyre
        from labkit.bench import measure
        x = torch.ones(64, 64)
        print(Timer("x @ x", globals={"x": x}).timeit(3).mean > 0)
        print(Timer("x @ x", globals={"x": x}).blocked_autorange(min_run_time=0.01).mean > 0)
        print(measure(lambda: x @ x, min_run_time=0.01).kind)
    """
    assert lines(program, tmp_path) == ["True", "True", "measured"]


def test_programs_on_the_cpu_give_the_same_bits(tmp_path):
    program = """
        import sys, hashlib, torch
        if sys.argv[-1] == "with": import labkit.spyre
        torch.manual_seed(3)
        m = torch.nn.Sequential(torch.nn.Linear(65, 33), torch.nn.GELU(), torch.nn.LayerNorm(33))
        x = torch.randn(7, 65, requires_grad=True)
        y = m(x); y.sum().backward()
        e = torch.compile(m, backend="aot_eager")(x)
        h = hashlib.sha256()
        for t in (y, x.grad, e, torch.empty(3).fill_(2).to(torch.float16), torch.rand(3)):
            h.update(t.detach().contiguous().numpy().tobytes())
        print(h.hexdigest(), torch.get_default_device(), repr(y)[:60])
    """
    from pathlib import Path

    script = Path(tmp_path) / "program.py"
    script.write_text(textwrap.dedent(program))
    outputs = [
        subprocess.run([sys.executable, str(script), mode], capture_output=True, text=True, cwd=tmp_path, timeout=300)
        for mode in ("with", "without")
    ]
    assert outputs[0].stdout and outputs[0].stdout == outputs[1].stdout, outputs


def test_device_contexts_and_graphs_see_pytorchs_own_functions(tmp_path):
    program = """
        import labkit.spyre, torch
        with torch.device("meta"):
            print(torch.empty(3).device, torch.nn.Linear(2, 2).weight.device, torch.ones(2).to(torch.float16).device)
        graphs = []
        def keep(gm, inputs):
            graphs.append(gm)
            return gm
        f = torch.compile(lambda x: torch.empty(3).fill_(1) + x.to(torch.float16).to("cpu"), backend=keep)
        print(f(torch.ones(3)).dtype)
        print([(n.op, n.target if isinstance(n.target, str) else n.target.__name__) for n in graphs[0].graph.nodes if n.op.startswith("call")][:4])
        print(torch.empty.__module__, type(torch.empty).__name__)
    """
    assert lines(program, tmp_path) == [
        "meta meta meta",
        "torch.float32",
        "[('call_function', 'empty'), ('call_method', 'fill_'), ('call_method', 'to'), ('call_method', 'to')]",
        "torch builtin_function_or_method",
    ]


def test_another_backend_in_the_place_is_named(tmp_path):
    done = run("import torch; torch.utils.rename_privateuse1_backend('other'); import labkit.spyre", tmp_path)
    assert done.returncode != 0
    assert "taken by 'other'" in done.stderr and "Start a new process" in done.stderr


def test_the_real_project_is_used_where_it_is_importable_and_said_so(tmp_path):
    (tmp_path / "torch_spyre").mkdir()
    (tmp_path / "torch_spyre" / "__init__.py").write_text(
        "import torch\ntorch.utils.rename_privateuse1_backend('spyre')\ntorch._register_device_module('spyre', type('Real', (), {})())\n"
    )
    program = """
        import warnings, torch
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            import labkit.spyre
        print("real torch_spyre is installed and is used" in str(seen[0].message), len(seen), labkit.spyre.uses_real_device(), type(torch.spyre).__name__)
    """
    import os

    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert lines(program, tmp_path, PYTHONPATH=path) == ["True 1 True Real"]
