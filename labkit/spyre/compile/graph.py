"""From a captured graph to something that runs: AOTAutograd makes it functional ATen, the seam runs it.

Until the compiler of the simulated stack lands, the program is the functional graph itself, and each of its operators goes to the
executor; the counters say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..execution import eager
from ..execution.executor import count_graph
from ..runtime import diagnosis


@dataclass(eq=False)
class CompiledGraph:
    """One compiled region: the functional ATen `graph_module`, and how often it ran."""

    graph_module: torch.fx.GraphModule
    runs: int = 0

    def __call__(self, *inputs):
        self.runs += 1
        count_graph(eager.executor().name)
        with torch.no_grad():
            return torch.fx.Interpreter(self.graph_module).run(*inputs)


_compiled: list[CompiledGraph] = []


def compiled_graphs() -> list[CompiledGraph]:
    """The regions compiled in this process, oldest first."""
    return list(_compiled)


def compile_graph(model: torch.fx.GraphModule, example_inputs):
    """Compiles a graph that Dynamo captured; returns the callable that Dynamo calls. Inference only: no backward graph is made."""
    from functorch.compile import make_boxed_func
    from torch._functorch.aot_autograd import aot_module_simplified

    def compiler(graph_module: torch.fx.GraphModule, _inputs):
        region = CompiledGraph(graph_module)
        _compiled.append(region)
        return make_boxed_func(region)

    if torch.is_grad_enabled():
        _refuse_lost_gradients(example_inputs)
    try:
        with torch.no_grad():
            return aot_module_simplified(model, example_inputs, fw_compiler=compiler)
    except Exception as error:
        diagnosis.capture(error, "compile_frontend", layer=2)
        raise


def _refuse_lost_gradients(inputs) -> None:
    """Raises RuntimeError when a tensor of another device would silently lose its gradient in a graph of this one."""
    for x in inputs:
        if isinstance(x, torch.Tensor) and x.device.type != "spyre" and x.requires_grad:
            raise RuntimeError(
                f"a graph that works on 'spyre' also takes a tensor of shape {list(x.shape)} on {x.device} that requires a gradient; compiled code "
                "on this device gives none. Use torch.no_grad() or x.detach(), or compile the two devices' parts apart."
            )
