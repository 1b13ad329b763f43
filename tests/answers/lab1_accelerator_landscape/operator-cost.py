# %% right: asks tensors without memory for the shape
def operator_cost(op, shapes, itemsize):
    tensors = [torch.empty(shape, device="meta") for shape in shapes]
    if op == "matmul":
        out = tensors[0] @ tensors[1]
        flops = 2 * out.numel() * shapes[0][-1]
    elif op == "multiply":
        out = tensors[0] * tensors[1]
        flops = out.numel()
    else:
        out = tensors[0].sum()
        flops = tensors[0].numel() - 1 if tensors[0].numel() else 0
    moved = out.numel() + sum(t.numel() for t in tensors)
    return {"flops": flops, "bytes": moved * itemsize}

# %% right: by hand, without a library
def operator_cost(op, shapes, itemsize):
    def count(shape):
        n = 1
        for d in shape:
            n *= d
        return n

    first = shapes[0]
    if op == "sum":
        n = count(first)
        return {"flops": n - 1 if n > 0 else 0, "bytes": (n + 1) * itemsize}
    second = shapes[1]
    if op == "matmul":
        *batch, m, k = first
        n = second[-1]
        result = count(batch) * m * n
        return {"flops": result * k * 2, "bytes": (count(first) + count(second) + result) * itemsize}
    result = 1
    for i in range(1, max(len(first), len(second)) + 1):
        a = first[-i] if i <= len(first) else 1
        b = second[-i] if i <= len(second) else 1
        result *= b if a == 1 else a
    return {"flops": result, "bytes": (count(first) + count(second) + result) * itemsize}

# %% wrong: an FMA is one operation | says: two operations | scores: 0
def operator_cost(op, shapes, itemsize):
    if op == "matmul":
        out = (*shapes[0][:-1], shapes[1][-1])
        flops = math.prod(out) * shapes[0][-1] * (1 if shapes[0][-1] != 3 else 2)
    elif op == "multiply":
        out = tuple(torch.broadcast_shapes(*shapes))
        flops = math.prod(out)
    else:
        out = ()
        flops = max(math.prod(shapes[0]) - 1, 0)
    return {"flops": flops, "bytes": (sum(map(math.prod, shapes)) + math.prod(out)) * itemsize}

# %% wrong: forgets the batch | says: leading dimensions count too | scores: 0
def operator_cost(op, shapes, itemsize):
    if op == "matmul":
        out = (*shapes[0][:-1], shapes[1][-1])
        flops = 2 * shapes[0][-2] * shapes[0][-1] * shapes[1][-1]
    elif op == "multiply":
        out = tuple(torch.broadcast_shapes(*shapes))
        flops = math.prod(out)
    else:
        out = ()
        flops = max(math.prod(shapes[0]) - 1, 0)
    return {"flops": flops, "bytes": (sum(map(math.prod, shapes)) + math.prod(out)) * itemsize}

# %% wrong: a broadcast operand is read at full size | says: not copied to the larger shape | scores: 1
def operator_cost(op, shapes, itemsize):
    if op == "matmul":
        out = (*shapes[0][:-1], shapes[1][-1])
        return {"flops": 2 * math.prod(out) * shapes[0][-1], "bytes": (sum(map(math.prod, shapes)) + math.prod(out)) * itemsize}
    if op == "multiply":
        n = math.prod(torch.broadcast_shapes(*shapes))
        return {"flops": n, "bytes": 3 * n * itemsize}
    n = math.prod(shapes[0])
    return {"flops": max(n - 1, 0), "bytes": (n + 1) * itemsize}

# %% wrong: the result of a sum is not written | says: The result has to be written | scores: 2
def operator_cost(op, shapes, itemsize):
    if op == "matmul":
        out = (*shapes[0][:-1], shapes[1][-1])
        return {"flops": 2 * math.prod(out) * shapes[0][-1], "bytes": (sum(map(math.prod, shapes)) + math.prod(out)) * itemsize}
    if op == "multiply":
        n = math.prod(torch.broadcast_shapes(*shapes))
        return {"flops": n, "bytes": (n + sum(map(math.prod, shapes))) * itemsize}
    n = math.prod(shapes[0])
    return {"flops": max(n - 1, 0), "bytes": n * itemsize}

# %% wrong: n additions for n numbers | says: n - 1 additions | scores: 2
def operator_cost(op, shapes, itemsize):
    out = {"matmul": lambda: (*shapes[0][:-1], shapes[1][-1]), "multiply": lambda: tuple(torch.broadcast_shapes(*shapes)), "sum": lambda: ()}[op]()
    n = math.prod(shapes[0])
    flops = {"matmul": 2 * math.prod(out) * shapes[0][-1], "multiply": math.prod(out), "sum": n}[op]
    return {"flops": flops, "bytes": (sum(map(math.prod, shapes)) + math.prod(out)) * itemsize}

# %% wrong: minus one addition for nothing | says: not minus one | scores: 2
def operator_cost(op, shapes, itemsize):
    out = {"matmul": lambda: (*shapes[0][:-1], shapes[1][-1]), "multiply": lambda: tuple(torch.broadcast_shapes(*shapes)), "sum": lambda: ()}[op]()
    n = math.prod(shapes[0])
    flops = {"matmul": 2 * math.prod(out) * shapes[0][-1], "multiply": math.prod(out), "sum": n - 1}[op]
    return {"flops": flops, "bytes": (sum(map(math.prod, shapes)) + math.prod(out)) * itemsize}

# %% wrong: k - 1 additions for an element of a product | says: the convention | scores: 0
def operator_cost(op, shapes, itemsize):
    out = {"matmul": lambda: (*shapes[0][:-1], shapes[1][-1]), "multiply": lambda: tuple(torch.broadcast_shapes(*shapes)), "sum": lambda: ()}[op]()
    n, k = math.prod(shapes[0]), shapes[0][-1]
    products = math.prod(out) * (2 * k if k == 3 else 2 * k - 1)
    flops = {"matmul": products, "multiply": math.prod(out), "sum": max(n - 1, 0)}[op]
    return {"flops": flops, "bytes": (sum(map(math.prod, shapes)) + math.prod(out)) * itemsize}
