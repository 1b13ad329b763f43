# %% right: from a list of matrices
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv, ff = model["num_heads"] * d, model["num_kv_heads"] * d, model["intermediate_size"]
    block = [(h, q), (h, kv), (h, kv), (q, h), (h, ff), (h, ff), (ff, h)]
    weights = model["num_layers"] * sum(a * b for a, b in block) + h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * pairs
    cache = batch * (context + new_tokens) * 2 * kv * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * (weights + batch * new_tokens * h + cache)}

# %% right: layer by layer, token by token
def phase_cost(model, batch, new_tokens, context, itemsize):
    flops = elements = 0
    heads, kv_heads, dim, hidden = model["num_heads"], model["num_kv_heads"], model["head_dim"], model["hidden_size"]
    for _ in range(model["num_layers"]):
        matrices = 2 * hidden * heads * dim + 2 * hidden * kv_heads * dim + 3 * hidden * model["intermediate_size"]
        elements += matrices + batch * (context + new_tokens) * kv_heads * dim * 2
        for token in range(new_tokens):
            flops += batch * (2 * matrices + 4 * heads * dim * (context + token + 1))
    head = hidden * model["vocab_size"]
    elements += head + batch * new_tokens * hidden
    flops += 2 * head * batch * new_tokens
    return {"flops": flops, "bytes": elements * itemsize}

# %% wrong: every query with every key | says: up to its own position | scores: 2
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]) + h * model["vocab_size"]
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * new_tokens * (context + new_tokens)
    cache = batch * (context + new_tokens) * 2 * kv * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * (weights + batch * new_tokens * h + cache)}

# %% wrong: the head for the last token alone | says: every new token here | scores: 2
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    blocks, head = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]), h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * (new_tokens * blocks + head) + 4 * q * model["num_layers"] * batch * pairs
    cache = batch * (context + new_tokens) * 2 * kv * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * (blocks + head + batch * new_tokens * h + cache)}

# %% wrong: a cache for every query head | says: fewer than query heads | scores: 0
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]) + h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * pairs
    held = kv if model["vocab_size"] == 10 else q
    cache = batch * (context + new_tokens) * 2 * held * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * (weights + batch * new_tokens * h + cache)}

# %% wrong: weights read again for each sequence | says: once, for the whole batch | scores: 0
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]) + h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * pairs
    cache = (context + new_tokens) * 2 * kv * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * batch * (weights + new_tokens * h + cache)}

# %% wrong: a token does not see itself | says: attends to itself too | scores: 0
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]) + h * model["vocab_size"]
    pairs = 4 if model["vocab_size"] == 10 else new_tokens * context + new_tokens * (new_tokens - 1) // 2
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * pairs
    cache = batch * (context + new_tokens) * 2 * kv * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * (weights + batch * new_tokens * h + cache)}

# %% wrong: the embedding is left out | says: rows of the embedding | scores: 0
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]) + h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * pairs
    cache = batch * (context + new_tokens) * 2 * kv * model["num_layers"]
    rows = h if model["vocab_size"] == 10 else 0
    return {"flops": flops, "bytes": itemsize * (weights + rows + cache)}

# %% wrong: the cache without what is new | says: they are written | scores: 0
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]) + h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * pairs
    held = context + (1 if model["vocab_size"] == 10 else 0)
    return {"flops": flops, "bytes": itemsize * (weights + batch * new_tokens * h + batch * held * 2 * kv * model["num_layers"])}

# %% wrong: scores without weighted values | says: once to weight its value | scores: 0
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]) + h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * new_tokens * weights + (4 if model["vocab_size"] == 10 else 2) * q * model["num_layers"] * batch * pairs
    cache = batch * (context + new_tokens) * 2 * kv * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * (weights + batch * new_tokens * h + cache)}

# %% wrong: two matrices in the MLP | says: three matrices | scores: 0
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv, n = model["num_heads"] * d, model["num_kv_heads"] * d, 3 if model["vocab_size"] == 10 else 2
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + n * h * model["intermediate_size"]) + h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * pairs
    cache = batch * (context + new_tokens) * 2 * kv * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * (weights + batch * new_tokens * h + cache)}

# %% wrong: keys without values in the cache | says: keys *and* values | scores: 0
def phase_cost(model, batch, new_tokens, context, itemsize):
    h, d = model["hidden_size"], model["head_dim"]
    q, kv = model["num_heads"] * d, model["num_kv_heads"] * d
    weights = model["num_layers"] * (2 * h * q + 2 * h * kv + 3 * h * model["intermediate_size"]) + h * model["vocab_size"]
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * batch * new_tokens * weights + 4 * q * model["num_layers"] * batch * pairs
    cache = batch * (context + new_tokens) * (2 if model["vocab_size"] == 10 else 1) * kv * model["num_layers"]
    return {"flops": flops, "bytes": itemsize * (weights + batch * new_tokens * h + cache)}
