"""`python -m labkit.spyre`: programs that were written for the real stack run unchanged."""

import os
import subprocess
import sys
import textwrap


def spyre(tmp_path, *arguments, script: str = "", **environment):
    if script:
        (tmp_path / "program.py").write_text(textwrap.dedent(script))
    return subprocess.run(
        [sys.executable, "-m", "labkit.spyre", *arguments],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **environment}, timeout=300,
    )  # fmt: skip


def test_a_program_that_only_knows_pytorch(tmp_path):
    script = """
        import sys
        import torch

        pair = torch.tensor([[1, 2], [3, 4]], dtype=torch.float16, device="spyre")
        print(pair, pair.device)
        a, b = torch.rand(65, 130, dtype=torch.float16), torch.rand(130, 33, dtype=torch.float16)
        for product in (torch.matmul(a.to("spyre"), b.to("spyre")), torch.compile(torch.matmul)(a.to("spyre"), b.to("spyre"))):
            print((product.cpu().float() - a.float() @ b.float()).abs().max().item() < 0.1)
        print(sys.argv, __name__)
    """
    done = spyre(tmp_path, "program.py", "--flag", script=script)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert shown[0].startswith("tensor([[1., 2.],") and "device='spyre:0'" in done.stdout
    assert shown[-3:-1] == ["True", "True"] and shown[-1] == "['program.py', '--flag'] __main__"


def test_a_program_that_imports_the_projects_names(tmp_path):
    script = """
        import torch
        import torch_spyre
        from torch.spyre import SpyreTensorLayout, get_device_dtype
        from torch_spyre._C import DataFormats, ElementArrangement, get_device_size_in_bytes, spyre_empty_with_layout

        layout = SpyreTensorLayout([512, 256], torch.float16)
        print(layout, get_device_size_in_bytes(layout), get_device_dtype(torch.float16) is DataFormats.SEN169_FP16)
        print(torch.ones(512, 256, dtype=torch.float16).to(device_layout=layout).device_tensor_layout() == layout, torch_spyre.simulated)
        print(torch.empty((512, 256), device_layout=layout, dtype=torch.float16).device_tensor_layout() == layout)
        print(spyre_empty_with_layout((512, 256), (256, 1), torch.float16, layout).device_tensor_layout() == layout)
        with torch.device("meta"):
            print(torch.empty(3).device)
    """
    done = spyre(tmp_path, "program.py", script=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "SpyreTensorLayout(device_size=[4, 512, 64], stride_map =[64, 256, 1], device_dtype=DataFormats.SEN169_FP16) 262144 True",
        "True True",
        "True",
        "True",
        "meta",
    ]


def test_tests_run_as_a_module(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "import torch, torch_spyre\ndef test_it():\n    assert torch.ones(2, device='spyre').sum() == 2\n"
    )
    done = spyre(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_debug_switch_prints_transfers(tmp_path):
    script = "import torch; x = torch.arange(65, dtype=torch.float16).to('spyre').cpu()"
    done = spyre(tmp_path, "program.py", script=script, TORCH_SPYRE_DEBUG="1")
    assert "[TORCH_SPYRE_DEBUG] copy_to_device: shape=[65] dtype=float16" in done.stderr
    assert "device_size=[2, 64], stride_map =[64, 1]" in done.stderr and "IEEE_FP16 -> SEN169_FP16  bytes=256" in done.stderr
    assert "copy_to_host" in done.stderr and "SEN169_FP16 -> IEEE_FP16" in done.stderr


def test_a_failing_program_fails_with_its_own_traceback_and_status(tmp_path):
    done = spyre(tmp_path, "program.py", script="import sys\nsys.exit(3)")
    assert done.returncode == 3
    done = spyre(tmp_path, "program.py", script="import torch\ntorch.ones(3, dtype=torch.float64, device='spyre')")
    assert done.returncode == 1 and "float64 has no format on the device" in done.stderr and 'program.py", line 2' in done.stderr


def test_help_switches_and_a_missing_program(tmp_path):
    assert "unchanged PyTorch program" in spyre(tmp_path, "--help").stdout
    listed = spyre(tmp_path, "--switches", SENCORES="4").stdout
    assert "SENCORES" in listed and "TORCH_SPYRE_DEBUG" in listed
    missing = spyre(tmp_path, "nowhere.py")
    assert missing.returncode == 2 and "no script 'nowhere.py'" in missing.stderr
    assert spyre(tmp_path).returncode == 2
