"""One row per ATen operator: what kind of work it is, its FLOPs, and what it reads and writes when that is not "everything once".

Kinds:
    matmul, convolution, attention  multiply-accumulate work: for tensor cores, systolic arrays, PE grids
    pointwise     every result element from the operand elements of its place
    reduction     results from whole rows: sums, softmax, normalisation
    gather        elements picked or placed by index
    movement      copies, layout changes, concatenation
    view          another way to look at the same memory
    factory       a tensor from no tensor
    sort          order-dependent: sort, topk
    random        draws
    collective    an exchange with the other devices that run the program

FLOPs of pointwise work are operations per result element, of reductions per element read: each +, -, *, /, comparison, and each
elementary function (exp, tanh, rsqrt) counts as one; `transcendental` is how many of them are such functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labkit.graph import formulas

KINDS = (
    "matmul",
    "convolution",
    "attention",
    "pointwise",
    "reduction",
    "gather",
    "movement",
    "view",
    "factory",
    "sort",
    "random",
    "collective",
)
MULTIPLY = ("matmul", "convolution", "attention")
"""Kinds whose FLOPs are multiply-accumulates."""


@dataclass(frozen=True)
class Row:
    """kind; formula(args, outputs) -> int or None, or `per_element` operations; transcendental functions per element.

    traffic  a rule of `labkit.graph.cost` for operators that do not read every operand and write every result in full.
    """

    kind: str
    formula: Callable | None = None
    per_element: float | None = None
    transcendental: float = 0.0
    traffic: str = "all"


OPERATORS: dict[str, Row] = {}


def _add(kind: str, names: str, **settings) -> None:
    for name in names.split():
        OPERATORS[name] = Row(kind, **settings)


# -- multiply-accumulate --
_add("matmul", "mm _scaled_mm _int_mm", formula=formulas.mm)
_add("matmul", "addmm", formula=formulas.addmm)
_add("matmul", "bmm", formula=formulas.bmm)
_add("matmul", "baddbmm", formula=formulas.baddbmm)
_add("matmul", "mv", formula=formulas.mv)
_add("matmul", "dot vdot", formula=formulas.dot)
_add(
    "convolution", "convolution _convolution cudnn_convolution convolution_overrideable _slow_conv2d_forward mkldnn_convolution",
    formula=formulas.convolution,
)  # fmt: skip
_add("convolution", "convolution_backward", formula=formulas.convolution_backward)
_add(
    "attention",
    "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable _scaled_dot_product_attention_math",
    formula=formulas.attention,
)
_add(
    "attention",
    "_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention_backward "
    "_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward",
    formula=formulas.attention_backward,
)
_add("attention", "_flash_attention_forward _efficient_attention_forward", formula=formulas.attention_rows)
_add("attention", "_flash_attention_backward _efficient_attention_backward", formula=formulas.attention_rows_backward)

# -- pointwise: operations per result element --
_add(
    "pointwise",
    "add sub mul div neg abs maximum minimum floor ceil round trunc sign sgn relu clamp_min clamp_max rsub reciprocal square",
    per_element=1,
)
_add("pointwise", "add_ sub_ mul_ div_ neg_ relu_ clamp_min_ clamp_max_ abs_ reciprocal_", per_element=1)
_add(
    "pointwise",
    "eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf bitwise_and bitwise_or bitwise_not bitwise_xor",
    per_element=1,
)
_add(
    "pointwise",
    "bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ fmod remainder floor_divide where masked_fill masked_fill_ copysign",
    per_element=1,
)
_add(
    "pointwise",
    "clamp clamp_ hardtanh hardtanh_ relu6 addcmul addcdiv addcmul_ addcdiv_ leaky_relu leaky_relu_ threshold threshold_backward",
    per_element=2,
)
_add("pointwise", "lerp hardsigmoid hardsigmoid_ fma", per_element=3)
_add("pointwise", "hardswish hardswish_", per_element=5)
_add(
    "pointwise",
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan tanh asin acos atan sinh cosh atan2 erf erfc erfinv",
    per_element=1,
    transcendental=1,
)
_add("pointwise", "exp_ log_ sqrt_ rsqrt_ sin_ cos_ tanh_ erf_", per_element=1, transcendental=1)
_add("pointwise", "pow pow_ float_power hypot xlogy", per_element=1, transcendental=1)
_add("pointwise", "sigmoid sigmoid_", per_element=3, transcendental=1)  # 1 / (1 + exp(-x)), the sign within exp
_add("pointwise", "silu silu_ softplus logit", per_element=4, transcendental=1)
_add("pointwise", "log_sigmoid_forward elu elu_ selu celu logaddexp", per_element=4, transcendental=2)
_add("pointwise", "gelu gelu_", per_element=5, transcendental=1)  # x / 2 (1 + erf(x / sqrt 2))
_add("pointwise", "mish", per_element=6, transcendental=3)
_add("pointwise", "glu", per_element=4, transcendental=1)
_add("pointwise", "tanh_backward sigmoid_backward", per_element=3)
_add("pointwise", "silu_backward gelu_backward", per_element=8, transcendental=1)
_add("pointwise", "convert_element_type _to_copy", per_element=0, traffic="convert")

# -- reductions: operations per element read --
_add("reduction", "sum mean amax amin max min prod any all argmax argmin nansum count_nonzero aminmax", per_element=1)
_add("reduction", "var std norm linalg_vector_norm", per_element=3)
_add("reduction", "var_mean std_mean", per_element=4)
_add("reduction", "cumsum cumprod cummax cummin", per_element=1)
_add("reduction", "logsumexp", per_element=4, transcendental=1)
_add("reduction", "_softmax _safe_softmax softmax", per_element=5, transcendental=1)  # max, subtract, exp, sum, divide
_add("reduction", "_log_softmax log_softmax", per_element=5, transcendental=1)
_add("reduction", "_softmax_backward_data _log_softmax_backward_data", per_element=4)
_add(
    "reduction", "native_layer_norm native_group_norm layer_norm", per_element=8
)  # mean, x - mean, square, sum, scale, weight, bias
_add("reduction", "_fused_rms_norm rms_norm", per_element=4)  # square, sum, scale, weight
_add("reduction", "native_layer_norm_backward native_group_norm_backward", per_element=14)
_add("pointwise", "_native_batch_norm_legit_no_training", per_element=4)  # running statistics: subtract, scale, weight, bias
_add(
    "reduction",
    "native_batch_norm _native_batch_norm_legit cudnn_batch_norm _native_batch_norm_legit_functional _batch_norm_with_update",
    per_element=8,
)
_add(
    "reduction",
    "avg_pool2d avg_pool1d avg_pool3d _adaptive_avg_pool2d adaptive_avg_pool1d max_pool2d_with_indices max_pool3d_with_indices",
    per_element=1,
)
_add("reduction", "nll_loss_forward mse_loss binary_cross_entropy", per_element=2)

# -- indices --
_add("gather", "embedding index_select gather index _unsafe_index take", per_element=0, traffic="gather")
_add("gather", "index_copy_ index_put_ _index_put_impl_ scatter_", per_element=0, traffic="place")
_add("gather", "index_copy index_put scatter slice_scatter select_scatter index_fill masked_scatter", per_element=0)
_add("gather", "index_add_ scatter_add_ scatter_reduce_", per_element=1, traffic="place")
_add("gather", "index_add scatter_add scatter_reduce embedding_dense_backward", per_element=1)
_add("sort", "sort topk msort kthvalue searchsorted bucketize unique_dim", per_element=1)

# -- movement --
_add(
    "movement",
    "clone cat stack constant_pad_nd flip roll repeat repeat_interleave contiguous tril triu fold im2col col2im",
    per_element=0,
)
_add("movement", "pixel_shuffle reflection_pad1d reflection_pad2d upsample_nearest2d", per_element=0)
_add("movement", "copy_ fill_ zero_", per_element=0, traffic="overwrite")
_add("movement", "copy", per_element=0)
_add("pointwise", "upsample_bilinear2d", per_element=7)

# -- views --
_add(
    "view",
    "view _unsafe_view reshape _reshape_alias t transpose permute expand unsqueeze squeeze select slice split split_with_sizes unbind narrow "
    "as_strided alias detach diagonal unfold chunk view_as_real view_as_complex lift_fresh lift movedim swapaxes flatten unflatten real "
    "squeeze_ unsqueeze_ transpose_ t_ detach_ _conj conj",
    per_element=0,
)

# -- from nothing --
_add("factory", "empty empty_like empty_strided new_empty new_empty_strided empty_permuted", per_element=0, traffic="nothing")
_add(
    "factory",
    "arange full full_like zeros zeros_like ones ones_like new_zeros new_ones new_full scalar_tensor eye linspace tril_indices",
    per_element=0,
    traffic="write",
)
_add(
    "random",
    "rand randn randint rand_like randn_like randint_like bernoulli bernoulli_ normal_ uniform_ randperm native_dropout multinomial",
    per_element=1,
)

# -- with other devices: PyTorch's functional collectives (namespace _c10d_functional). The additions of a sum are the network's --
_add("collective", "all_reduce all_gather_into_tensor reduce_scatter_tensor all_to_all_single broadcast", per_element=0)


def row_of(operator: str) -> Row | None:
    """The row of an operator by its name without namespace and overload ("mm"), or None when there is none."""
    return OPERATORS.get(operator)


def kind_of(operator: str) -> str:
    """Its kind, or "unknown"."""
    row = OPERATORS.get(operator)
    return row.kind if row else "unknown"
