"""Recurrent cells: PyTorch calls fused ones on a device that is not the CPU; here they are the operators that they stand for.

Gate order and formulas: torch.nn.LSTMCell and torch.nn.GRUCell. input_gates and hidden_gates are W x and U h, [batch, gates x hidden].
"""

from __future__ import annotations

import torch


def register(library: torch.library.Library) -> None:
    """Registers the two cells."""
    library.impl("_thnn_fused_lstm_cell", lstm_cell, "PrivateUse1")
    library.impl("_thnn_fused_gru_cell", gru_cell, "PrivateUse1")


def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    """(h, c, gates) of one step: c' = f c + i g, h' = o tanh(c'), gates i, f, g, o."""
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * cx + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c, gates


def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    """(h, gates) of one step: h' = (1 - z) n + z h with n = tanh(W x + r (U h)), gates r, z, n."""
    if input_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    (ri, zi, ni), (rh, zh, nh) = input_gates.chunk(3, 1), hidden_gates.chunk(3, 1)
    r, z = torch.sigmoid(ri + rh), torch.sigmoid(zi + zh)
    n = torch.tanh(ni + r * nh)
    return n + z * (hx - n), torch.cat([r, z, n, hx, nh], 1)
