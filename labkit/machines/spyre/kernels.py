"""`SpyreKernels`: what one kernel costs on one Spyre card, in closed form.

    product    start + max(arrays, operands in) + partial sums + result out + turnaround   (`labkit.machines.spyre.division`)
    loop       start + max(vector units, bytes / bandwidth + turnaround x min(read, written))
    restickify twice the operand's bytes at the rate of a transpose

Source of the loops' form: torch-spyre, docs/source/compiler/cost_model.md. Its matrix products are max(compute, memory), which hides the writing of the
result; published times of products that differ in K alone do not.
"""

from __future__ import annotations

import functools
import math

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.machine_spec import MachineSpec, dtype_name
from labkit.machines.mapping import Sticks
from labkit.machines.spyre import attention as attended
from labkit.machines.spyre import loops
from labkit.machines.spyre.division import (
    ITEMSIZE,
    MACS_PER_CYCLE,
    STICK_BYTES,
    Card,
    Product,
    Split,
    SplitTime,
    best,
    checked,
    time_of,
)

DIVISION = "torch-spyre, work_division_planning.md"
FORMATS = {"float16": "fp16", "bfloat16": "fp16", "float8": "fp8"}
DEFAULT_LX_FRACTION = 0.2
"""Of LX, for the backend compiler where nothing else is set (torch-spyre, config.py, DXP_LX_FRAC_AVAIL); the rest holds planned results."""


class SpyreKernels:
    """Prices kernels on a card of `spec`. Sizes in elements, traffic in bytes.

    calibration  constants other than the shipped ones. clock_hz: None for the clock that reproduces measurements; 1.5e9 is the planner's.
    lx_fraction  part of LX that the backend compiler keeps (DXP_LX_FRAC_AVAIL); results are planned into the rest.
    lx_planning  False: nothing is planned into LX, and what an operator hands to the next goes through memory.
    flash        attention as one kernel with a running softmax (forks of torch-spyre); False: two products and a softmax.

    Operands and results of a product, and of a kernel of loops, go through memory: a result stays in LX only where the kernel that reads it divides it
    over the cores as the one that made it (torch-spyre, scratchpad_planning.md), which is so inside a kernel of loops and can be so in attention.

    Raises ValueError for a spec that is no Spyre, and options out of range. Every method raises ValueError for a size below 1, products also for a
    dtype without a rate (float32 and wider: none is published).
    """

    asks = frozenset({"handed", "sticks"})
    """What `labkit.machines.pricing` adds to calls: handed=(reads, writes) bytes between the operators of a kernel of loops; operands whose sticks lie
    along the other dimension (restickify=, pattern="transpose")."""

    def __init__(
        self, spec: MachineSpec, calibration: Calibration | None = None, stack: str | None = None, *, clock_hz: float | None = None,
        lx_planning: bool = True, flash: bool = False, lx_fraction: float = DEFAULT_LX_FRACTION,
    ):  # fmt: skip
        if spec.system != "spyre":
            raise ValueError(f"{spec.name} is a {spec.system} product: SpyreKernels prices Spyre cards")
        if clock_hz is not None and not (math.isfinite(clock_hz) and 1e8 <= clock_hz <= 1e10):
            raise ValueError(f"clock_hz = {clock_hz!r}: expected hertz, such as 1.1e9 (measured) or 1.5e9 (the planner's)")
        if not 0 < lx_fraction <= 1:
            raise ValueError(f"lx_fraction = {lx_fraction!r}: expected a part of the scratchpad, above 0 and at most 1")
        self.spec, self.constants = spec, calibration or shipped("spyre")
        self.stack, self.lx_planning, self.flash = stack, lx_planning, flash
        c = self.constants
        clock = clock_hz or c["clock_hz"]
        self.clock_source = "as asked" if clock_hz else c.constants["clock_hz"].origin
        self.nominal = spec["offchip_bw_measured"]
        cores = int(spec["cores"].value)
        usable = spec.capacity_bytes("local_sram") / cores - c["lx_reserved_bytes"]
        self.card = Card(cores, clock, self.nominal.si * c["bandwidth_share"], usable, lx_fraction)
        # Of one core, rounded up to whole sticks, as the planner does.
        self.lx_planned = math.ceil(usable * (1 - lx_fraction) / STICK_BYTES) * STICK_BYTES if lx_planning else 0
        self.matmul = functools.lru_cache(maxsize=4096)(self._matmul)

    @property
    def lx(self) -> int:
        """Bytes of all cores' LX into which results are planned."""
        return self.lx_planned * self.card.cores

    # -- roofs --

    def format(self, dtype) -> tuple[str, str]:
        """(format in which the arrays compute, a remark). Raises ValueError for a dtype without a rate."""
        name = dtype_name(dtype)
        if name not in FORMATS:
            raise ValueError(
                f"dtype = {dtype!r}: no rate of a product in {name} is published for {self.spec.name}; use float16 or bfloat16 (both computed as DL16) or float8"
            )
        remark = (
            f"{name} is computed as DL16 (1-6-9), the card's 16-bit format"
            if name != "float8"
            else "float8 operands, 16-bit result"
        )
        return FORMATS[name], remark

    def peak(self, dtype) -> float:
        """FLOP/s of all cores' arrays at this clock: 72.1 TFLOP/s for 16 bits at 1.1 GHz."""
        return 2.0 * MACS_PER_CYCLE[self.format(dtype)[0]] * self.card.cores * self.card.clock_hz

    # -- matrix products --

    def _matmul(
        self, m: int, k: int, n: int, dtype, *, batch: int = 1, weight_bytes_per_element: float | None = None, epilogue_flops: float = 0,
        epilogue_bytes: float = 0, split: tuple[int, ...] | None = None, restickify: tuple[str, ...] = (), resident: tuple[str, ...] = (),
    ) -> KernelCost:  # fmt: skip
        """`batch` products [m, k] x [k, n], each with a right operand of its own when there are several.

        weight_bytes_per_element  of the right operand as it is stored.
        split       (m, n, k) or (batch, m, n, k) ways to force; None: the cheapest.
        restickify  "a", "b": operands whose sticks lie along the other dimension. resident: "a", "b", "out" that are and stay in LX.
        """
        product = self.product(m, k, n, dtype, batch, weight_bytes_per_element, resident)
        chosen, decisions = self._division(product, split)
        turned = sum(product.left_size if which == "a" else product.right_size for which in restickify)
        decisions += self._padding(product, chosen)
        if resident:
            decisions.append(f"{' and '.join(resident)} in LX")
        if weight_bytes_per_element:
            decisions.append(
                f"weights are read at {weight_bytes_per_element:g} B each and widened on the way: as if torch-spyre could, which has no such product"
            )
        terms = self._product_terms(product, chosen)
        if turned:
            terms.append(self._restickify(turned))
            decisions.append(
                f"restickify {' and '.join(restickify)}: the product wants sticks of the left operand along K and of the right along N; {turned:,.0f} B go out and in again"
            )
        if epilogue_bytes:
            terms.append(self.stream(epilogue_bytes, "operands of what is fused behind it", overlaps=False))
        moved = product.left * product.left_size + product.right * product.right_size + product.out * product.out_size
        useful = 2.0 * batch * m * k * n + epilogue_flops
        n_padded, k_padded = product.padded
        mapping = Sticks(
            m, k, n, batch, (chosen.split.m, chosen.split.n, chosen.split.k), self.card.cores, product.stick, (k_padded - k, n_padded - n),
            self._kept(product, chosen), self.card.lx_bytes, turned, chosen.split.batch,
        )  # fmt: skip
        ring = product.left_size * chosen.split.n + product.right_size * chosen.split.m
        return KernelCost(
            tuple(terms), {"offchip": moved + 2 * turned + epilogue_bytes, "lx": ring + product.out_size * chosen.split.k}, useful,
            max(chosen.issued_flops + epilogue_flops, useful), (*decisions, self.format(dtype)[1]), mapping,
        )  # fmt: skip

    def product(
        self, m, k, n, dtype, batch: int = 1, weight_bytes_per_element: float | None = None, resident: tuple[str, ...] = ()
    ) -> Product:
        """The product as work division sees it. Raises ValueError for a size below 1 or a dtype without a rate."""
        _positive(m=m, k=k, n=n, batch=batch)
        format, _ = self.format(dtype)
        stored = weight_bytes_per_element or float(ITEMSIZE[format])
        return Product(m, k, n, format, batch, stored, "a" not in resident, "b" not in resident, "out" not in resident)

    def timed(self, product: Product, split: Split) -> SplitTime:
        """A product on one split."""
        return time_of(product, split, self.constants, self.card)

    def best_split(self, m: int, k: int, n: int, dtype, *, batch: int = 1) -> tuple[int, int, int, int]:
        """(batch, m, n, k) ways that the planner picks."""
        product = self.product(m, k, n, dtype, batch)
        found = best(product, self.card.cores, functools.partial(self.timed, product))[0].split
        return found.batch, found.m, found.n, found.k

    def _division(self, product: Product, split: tuple[int, ...] | None) -> tuple[SplitTime, list[str]]:
        cores = self.card.cores
        if split is not None:
            if len(split) not in (3, 4):
                raise ValueError(f"split = {split!r}: expected (m, n, k) or (batch, m, n, k)")
            given = checked(product, Split(*split) if len(split) == 4 else Split(1, *split), cores)
            return self.timed(product, given), [f"split {given} as given, on {given.cores} of {cores} cores"]
        chosen, second = best(product, cores, functools.partial(self.timed, product))
        told = f"split {chosen.split} on {chosen.split.cores} of {cores} cores: {chosen.seconds * 1e6:.4g} us"
        if second is not None:
            told += f"; next {second.split} with {second.seconds * 1e6:.4g} us"
        return chosen, [told]

    def _padding(self, product: Product, chosen: SplitTime) -> list[str]:
        n, k = product.padded
        said = []
        if (n, k) != (product.n, product.k):
            said.append(
                f"[{product.m}, {product.k}] x [{product.k}, {product.n}] is padded to [{product.m}, {k}] x [{k}, {n}]: sticks of {product.stick}"
            )
        rows = -(-product.m // chosen.split.m)
        if rows % 8:
            said.append(f"{rows} rows a core: a pass of the array takes 8")
        if chosen.stall > 1:
            said.append(
                f"a result tile of {chosen.tile_bytes / 1024:,.0f} KiB a core does not fit beside shared operands, which come again: arrays {chosen.stall:.2f} times slower"
            )
        elif chosen.tile_bytes > self.card.backend_lx:
            said.append(
                f"a result tile of {chosen.tile_bytes / 1024:,.0f} KiB a core is larger than the {self.card.backend_lx / 1024:,.0f} KiB of LX with the backend: made in parts"
            )
        return said

    def _kept(self, product: Product, chosen: SplitTime) -> float:
        """Bytes that one core keeps: its share of what is resident, and of results that leave the tile, as much of it as the backend's LX takes at once."""
        shares = ((product.left, product.left_size), (product.right, product.right_size), (product.out, product.out_size))
        planned = sum(size for moves, size in shares if not moves) / chosen.split.cores
        return planned + (min(chosen.tile_bytes, self.card.backend_lx) if product.out else 0.0)

    def _product_terms(self, product: Product, t: SplitTime) -> list[Term]:
        c = self.constants.constants
        share = c["batched_share" if product.batch > 1 else f"product_share.{product.format}"]
        source = f"{DIVISION}; {self.bandwidth_source}"
        stalled = f" x stall {t.stall:.2f}" if t.stall > 1 else ""
        peak = (
            f"{t.split.cores} cores x {2 * MACS_PER_CYCLE[product.format]} x {self.card.clock_hz / 1e9:.2f} GHz x {share.value:.1%}"
        )
        terms = [
            self.start(),
            Term("matrix unit", t.compute, f"{t.issued_flops / 1e9:,.4g} GFLOP issued / {peak}{stalled}", f"clock {self.clock_source}; share {share.origin}"),
            Term("off-chip memory", t.stream, f"operands {self.rate}, longer where more cores share one than a multicast serves", source),
        ]  # fmt: skip
        if t.sums:
            terms.append(
                Term(
                    "fabric",
                    t.sums,
                    f"{t.split.k - 1} hops of partial sums in 32 bits",
                    c["partial_sum_bytes_per_s"].origin,
                    overlaps=False,
                )
            )
        if t.out:
            terms.append(
                Term(
                    "off-chip memory",
                    t.out,
                    f"{product.out_size:,.0f} B of results {self.rate}, after the arrays",
                    source,
                    overlaps=False,
                )
            )
        if t.turnaround:
            turn = c["turnaround_s_per_byte"].origin
            terms.append(
                Term(
                    "off-chip memory",
                    t.turnaround,
                    "reads and writes alternate, for each byte of the lesser",
                    f"{loops.COST_MODEL}; {turn}",
                    overlaps=False,
                )
            )
        return terms

    def start(self, name: str = "kernel_start_s") -> Term:
        """What the start of a kernel costs."""
        constant = self.constants.constants[name]
        return Term("launch", constant.value, "the cores start one program", constant.origin, overlaps=False)

    @property
    def rate(self) -> str:
        """The bandwidth in words."""
        return f"at {self.card.bandwidth / 1e9:.4g} GB/s"

    @property
    def bandwidth_source(self) -> str:
        """Where it is from."""
        return f"{self.nominal.source}; share {self.constants.constants['bandwidth_share'].origin}"

    def stream(self, moved: float, words: str, *, overlaps: bool = True) -> Term:
        """Bytes in one direction between memory and cores."""
        return Term(
            "off-chip memory",
            moved / self.card.bandwidth,
            f"{moved:,.0f} B of {words} {self.rate}",
            self.bandwidth_source,
            overlaps,
        )

    def _restickify(self, moved: float) -> Term:
        rate = self.constants.constants["short_runs_bytes_per_s"]
        return Term(
            "off-chip memory",
            2 * moved / rate.value,
            f"restickify: 2 x {moved:,.0f} B / {rate.value / 1e9:.4g} GB/s",
            rate.origin,
            overlaps=False,
        )

    # -- attention --

    def attention(
        self, batch, heads, kv_heads, q_len, kv_len, head_dim, dtype, *, fused: bool = True, causal: bool = False
    ) -> KernelCost:
        """Scores, softmax and weighted values: two products and a softmax, or one kernel where it is fused and `flash` is on."""
        _positive(batch=batch, heads=heads, kv_heads=kv_heads, q_len=q_len, kv_len=kv_len, head_dim=head_dim)
        if heads % kv_heads:
            raise ValueError(f"heads = {heads}, kv_heads = {kv_heads}: expected a multiple")
        sizes = attended.Sizes(batch, heads, kv_heads, q_len, kv_len, head_dim)
        if fused and self.flash:
            return attended.one_kernel(self, sizes, dtype, causal)
        return attended.three_kernels(self, sizes, dtype, causal)

    # -- loops --

    def pointwise(
        self, elements, dtype, *, reads, writes, flops=0.0, transcendental=0.0, handed=(0.0, 0.0), pattern: str = "map"
    ) -> KernelCost:
        """Loops over elements in one kernel. handed: bytes that its operators read and write of one another's results, which stay in LX where one of
        them fits. pattern: "map", or "broadcast" where a row or column is read for every other."""
        _positive(elements=elements)
        fits = elements * loops.itemsize(dtype) <= self.lx
        return loops.loop(self, reads, writes, loops.operations(flops, transcendental), pattern, (), handed=handed, fits=fits)

    def reduction(
        self, rows, cols, dtype, *, reads, writes, flops=0.0, handed=(0.0, 0.0), pattern: str | None = None
    ) -> KernelCost:
        """rows x cols, each row to a few numbers and perhaps back (softmax, norms). handed: as of `pointwise`.

        pattern  "rows" (along the stick), "columns" (across rows) or "map" (a row back); None: by how much is written.
        """
        _positive(rows=rows, cols=cols)
        size = loops.itemsize(dtype)
        stick = STICK_BYTES // size
        padded = -(-cols // stick) * stick
        grown = padded / cols
        pattern = pattern or ("map" if writes * 4 > reads else "rows")
        said = (f"rows of {cols} are padded to {padded}: sticks of {stick}",) if padded != cols else ()
        fits = rows * padded * size <= self.lx
        handed = (handed[0] * grown, handed[1] * grown)
        return loops.loop(
            self, reads * grown, writes * (grown if pattern == "map" else 1.0), flops, pattern, said, rows, handed, fits
        )

    def in_lx(self, rows, cols, dtype, *, flops: float, passes: int) -> KernelCost:
        """A reduction and its loops over rows that lie in LX: nothing of it goes through memory; passes: times that a row is read or written."""
        size = loops.itemsize(dtype)
        moved = float(passes * rows * -(-cols // (STICK_BYTES // size)) * STICK_BYTES)
        rate = STICK_BYTES * self.card.clock_hz * self.card.cores
        on_chip = Term(
            "on-chip memory",
            moved / rate,
            f"{moved:,.0f} B in LX / {rate / 1e12:.3g} TB/s",
            f"{self.spec['sram_bw'].source}; clock {self.clock_source}",
        )
        return KernelCost(
            (self.start("loop_start_s"), on_chip, loops.vector(self, flops)), {"offchip": 0.0, "lx": moved}, flops, flops
        )

    def gather(self, rows, row_bytes, dtype) -> KernelCost:
        """Rows picked by index."""
        _positive(rows=rows, row_bytes=row_bytes)
        moved = float(rows) * -(-row_bytes // STICK_BYTES) * STICK_BYTES
        return loops.loop(
            self, moved, moved, 0.0, "map", ("torch-spyre leaves much of its indexing to the host; priced as if the card did it",)
        )

    def copy(self, reads, writes, *, pattern: str = "map") -> KernelCost:
        """Bytes read and written. pattern "transpose": sticks are taken apart and made again."""
        said = ("restickify: every stick of the result gathers elements of many sticks",) if pattern == "transpose" else ()
        return loops.loop(self, reads, writes, 0.0, pattern, said)


def _positive(**sizes) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} = {value!r}: expected 1 or more")
