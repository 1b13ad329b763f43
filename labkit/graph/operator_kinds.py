"""Kinds of operators, as a drawing tells them apart: by the ATen name without overload."""

from __future__ import annotations

KINDS = ("product", "attention", "pointwise", "reduction", "movement", "view", "gather", "creation", "other")

_NAMES = {
    "product": "mm bmm addmm baddbmm addbmm matmul linear dot mv addmv addr outer einsum convolution conv1d conv2d conv3d _convolution _scaled_mm "
    "_int_mm _grouped_mm _scaled_grouped_mm",
    "attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable "
    "_scaled_dot_product_attention_math _flash_attention_forward _efficient_attention_forward flex_attention",
    "pointwise": "add sub rsub mul div true_divide floor_divide remainder fmod pow neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt "
    "reciprocal square sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc sigmoid hardsigmoid logit relu relu6 gelu silu "
    "hardswish hardtanh leaky_relu elu softplus mish threshold where maximum minimum clamp clamp_min clamp_max lt le gt ge eq ne logical_and "
    "logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor bitwise_left_shift bitwise_right_shift floor ceil round "
    "trunc frac isnan isinf isfinite lerp addcmul addcdiv masked_fill native_dropout dropout bernoulli fill zero copysign _to_copy to "
    "_assert_async nan_to_num glu prelu",
    "reduction": "sum mean prod amax amin max min argmax argmin any all var std var_mean std_mean norm linalg_vector_norm logsumexp softmax _softmax "
    "log_softmax _log_softmax _safe_softmax cumsum cumprod native_layer_norm layer_norm native_group_norm native_batch_norm batch_norm "
    "_native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm _batch_norm_with_update _fused_rms_norm rms_norm topk sort "
    "argsort max_pool2d max_pool2d_with_indices avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool2d max_pool1d avg_pool1d median mode kthvalue "
    "count_nonzero nll_loss_forward histc",
    "movement": "clone copy contiguous cat concat stack constant_pad_nd pad flip roll repeat repeat_interleave tril triu reshape split_copy "
    "unfold im2col upsample_nearest2d upsample_bilinear2d pixel_shuffle slice_scatter select_scatter",
    "view": "view _unsafe_view t transpose permute expand unsqueeze squeeze slice select split split_with_sizes chunk unbind alias detach "
    "as_strided narrow view_as expand_as flatten unflatten _reshape_alias diagonal numpy_T movedim swapaxes lift_fresh view_as_real "
    "view_as_complex getitem",
    "gather": "embedding gather index index_select index_copy index_put index_add index_fill take take_along_dim scatter scatter_add scatter_reduce "
    "masked_select masked_scatter nonzero one_hot embedding_bag _embedding_bag bucketize searchsorted _unsafe_index",
    "creation": "arange zeros ones full empty zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty scalar_tensor "
    "rand randn rand_like randn_like randint eye linspace tensor lift_fresh_copy empty_strided new_empty_strided",
}  # fmt: skip
_KIND = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def kind_of(operator: str) -> str:
    """One of `KINDS` for an operator such as "mm", "add_" or "index_copy_"; "other" for one that is not in the table."""
    return _KIND.get(operator) or _KIND.get(operator.rstrip("_"), "other")
