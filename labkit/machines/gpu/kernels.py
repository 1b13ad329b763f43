"""`GpuKernels`: what one kernel costs on one NVIDIA GPU, in closed form.

    time = max(compute, L2, off-chip) + prologue of the K loop + start and drain of the kernel

compute   waves of tiles at the rate that a long product sustains (`roof_share` of the dense peak), less where the tile reuses its operands too little
          to keep the units fed
L2        bytes that all tiles load, at the L2's bandwidth
off-chip  compulsory bytes; more where a wave's operands do not stay in L2
Form after the time-based roofline (Wang et al., arXiv:2009.04598) with tile and wave quantisation (NVIDIA's guide, see `tiles`).
"""

from __future__ import annotations

import functools
import re

from labkit.machines.calibration import Calibration, shipped
from labkit.machines.gpu.tiles import GUIDE, Tiling, candidates
from labkit.machines.kernel import KernelCost, Term
from labkit.machines.machine_spec import MachineSpec, dtype_name

ITEMSIZE = {"float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int8": 1, "float4": 0.5, "int4": 0.5}
CLASSES = {
    "float16": "16 bit",
    "bfloat16": "16 bit",
    "float8": "8 bit",
    "int8": "8 bit",
    "float4": "4 bit",
    "float32": "fp32",
    "tf32": "tf32",
}
"""dtype -> class of the compute roof."""

TIME_BASED = "time-based roofline, Wang et al., arXiv:2009.04598"
FLASH = "FlashAttention-2, Dao 2023, arXiv:2307.08691"
VECTOR_BYTES = 16
"""Widest memory instruction, bytes: rows that start on it load fastest (cutlass issue 75; NVIDIA's guide)."""
QUERY_TILE = 128
"""Query rows of one thread block of FlashAttention-2 at head dimension 64 and 128."""
DECODE_TILE = 64
"""Query rows of one thread block of its split-KV kernel, which decode uses (flash-attention, flash_fwd_launch_template.h)."""
ROWS_PER_SM = 8
"""Rows that an SM works on at once: blocks of 256 threads, eight of which fill its 2,048 thread slots (CUDA programming guide)."""
LEAST_HITS = 0.25
"""A working set of more than four times what L2 keeps is streamed through it without a hit worth counting (least recently used goes first)."""
KEY_TILE = 256
"""Keys of one part when decode splits the cache over thread blocks (Flash-Decoding, pytorch.org/blog/flash-decoding)."""


class GpuKernels:
    """Prices kernels on `spec`. calibration: constants other than the shipped ones. Sizes in elements, traffic in bytes, times in seconds.

    stack  None: a kernel by itself, as a profiler times it. A software stack that keeps the device's queue full hides a part of each kernel's
           start behind the end of the one before (`start_share`).

    Raises ValueError for a spec that is no GPU. Every method raises ValueError for a size below 1 or a dtype without a peak.
    """

    def __init__(self, spec: MachineSpec, calibration: Calibration | None = None, stack: str | None = None):
        if spec.system != "gpu":
            raise ValueError(f"{spec.name} is a {spec.system} product: GpuKernels prices GPUs")
        self.spec, self.constants = spec, calibration or shipped("gpu")
        found = re.search(r"sm_\d+", str(spec["arch"].value))
        self.arch = found[0] if found else spec.key
        self.sms = int(spec["sm_count"].value)
        share = self.constants.constants.get(f"start_share.{stack}")
        self.start_share = 1.0 if share is None else share.value
        self._start_words = "" if share is None else f", {share.value:.0%} of it not hidden behind the kernel before"
        self._start_source = "" if share is None else f"; share {share.origin}"
        self.clock = spec["clock_boost"].si
        share, origin = self.constants.find("bandwidth_share", self.arch)
        self.bandwidth = spec.bandwidth_bytes_per_s("offchip") * share
        self._bandwidth_words = f"{share:.1%} of {spec['offchip_bw']}"
        self._bandwidth_source = f"{spec['offchip_bw'].source}; share {origin}"
        per_sm, self._l2_source = self.constants.find("l2_bytes_per_clock_per_sm", self.arch)
        self.l2_bandwidth = per_sm * self.sms * self.clock
        self.l2_bytes = spec.capacity_bytes("l2")
        self.l2_keeps = self.l2_bytes * self.constants["l2_kept_share"]
        self.cluster = (
            int(self.constants.find("cluster", self.arch)[0]) if f"cluster.{self.arch}" in self.constants.constants else 1
        )
        self.matmul = functools.lru_cache(maxsize=4096)(self._matmul)

    # -- roofs --

    def compute_roof(self, dtype) -> tuple[float, str]:
        """(FLOP/s that a long matrix product sustains, its source): the dense peak times a share."""
        name = dtype_name(dtype)
        share, origin = self.constants.find("roof_share", self.arch, CLASSES.get(name, name))
        peak = self.spec.peak(name)
        return peak.si * share, f"{share:.1%} of the dense peak {peak} ({peak.source}); share {origin}"

    def _alignment(self, *row_bytes: float) -> tuple[int, float]:
        """(bytes that all rows are a multiple of, up to 16; share of the fast rate that is left)."""
        vector = VECTOR_BYTES
        for row in row_bytes:
            while vector > 1 and row % vector:
                vector //= 2
        return vector, 1.0 if vector == VECTOR_BYTES else self.constants.find("alignment_share", str(vector))[0]

    def _start(self) -> Term:
        return Term(
            "launch", self.constants["kernel_latency_s"] * self.start_share, f"the device starts the kernel's first blocks and drains its last{self._start_words}",
            self.constants.constants["kernel_latency_s"].origin + self._start_source, overlaps=False,
        )  # fmt: skip

    def _off_chip(self, moved: float, active: float = 1.0, words: str = "", share: float = 1.0) -> Term:
        """active: share of the SMs at work; few of them cannot ask for enough bytes at once (Little's law)."""
        reach = min(1.0, active * self.constants["sm_bandwidth_multiple"])
        slower = f" at {reach:.0%}, for {active:.0%} of the SMs ask" if reach < 1 else ""
        return Term(
            "off-chip memory", moved / (self.bandwidth * reach * share), f"{moved:,.0f} B{words} / {self._bandwidth_words}{slower}", self._bandwidth_source
        )  # fmt: skip

    def _l2(self, moved: float) -> Term:
        return Term(
            "on-chip memory",
            moved / self.l2_bandwidth,
            f"{moved:,.0f} B through L2 / {self.l2_bandwidth / 1e12:.2f} TB/s",
            self._l2_source,
        )

    # -- matrix products --

    def _matmul(
        self, m: int, k: int, n: int, dtype, *, batch: int = 1, weight_bytes_per_element: float | None = None, resident: tuple[str, ...] = ("a",),
        epilogue_flops: float = 0, epilogue_bytes: float = 0,
    ) -> KernelCost:  # fmt: skip
        """`batch` products [m, k] x [k, n].

        weight_bytes_per_element  of B as it is stored, when narrower than dtype.
        resident  "a", "b": operands that the kernel before left in L2, as far as it keeps them. A is by default: somebody has just computed it.
        epilogue_flops, epilogue_bytes  of loop work in the same kernel.
        """
        _positive(m=m, k=k, n=n, batch=batch)
        name = dtype_name(dtype)
        size = ITEMSIZE[name]
        b_size = weight_bytes_per_element or size
        out = max(size, 2)
        roof, roof_source = self.compute_roof(name)
        vector, aligned = self._alignment(k * size, n * size)
        product = _Product(self, roof * aligned, name, size, b_size, out, resident, epilogue_bytes)
        tiling = min(candidates(m, k, n, batch, self.sms), key=product.seconds)
        terms, offchip = product.terms(tiling, roof_source), product.offchip(tiling)[0]
        decisions = [tiling.sentence(), tiling.padding()]
        if vector < VECTOR_BYTES:
            decisions.append(f"rows are multiples of {vector} B only, not of {VECTOR_BYTES}: {aligned:.0%} of the fast rate")
        if weight_bytes_per_element:
            decisions.append(f"weights are read at {weight_bytes_per_element:g} B each and widened to {name} in the kernel")
        useful = 2.0 * batch * m * k * n
        moved = {"offchip": offchip, "l2": max(tiling.l2_bytes(size, b_size, self.cluster) + batch * m * n * out, offchip)}
        issued = max(tiling.issued_flops, useful) + epilogue_flops
        return KernelCost(tuple(terms), moved, useful + epilogue_flops, issued, tuple(d for d in decisions if d), tiling)

    # -- attention --

    def attention(
        self, batch, heads, kv_heads, q_len, kv_len, head_dim, dtype, *, fused: bool = True, causal: bool = False
    ) -> KernelCost:
        """Scores, softmax and weighted values of queries [batch, heads, q_len, head_dim] over keys [batch, kv_heads, kv_len, head_dim].

        fused: one kernel that keeps scores on the SM; else three, with the scores in memory. causal: only blocks that a query may see.
        """
        _positive(batch=batch, heads=heads, kv_heads=kv_heads, q_len=q_len, kv_len=kv_len, head_dim=head_dim)
        if not fused:
            return self._unfused(batch, heads, kv_heads, q_len, kv_len, head_dim, dtype)
        name = dtype_name(dtype)
        size = ITEMSIZE[name]
        roof, roof_source = self.compute_roof(name)
        share, origin = self.constants.find("attention_share", self.arch)
        seen = kv_len - (q_len - 1) / 2 if causal and q_len <= kv_len else kv_len
        useful = 4.0 * batch * heads * q_len * seen * head_dim
        group = heads // kv_heads if heads % kv_heads == 0 else 1
        rows = q_len if q_len > 1 else group  # decode packs the queries that share a key head
        packed = heads if q_len > 1 else max(heads // group, 1)
        tile = QUERY_TILE if q_len > 1 else DECODE_TILE
        row_tiles = -(-rows // tile)
        blocks = batch * packed * row_tiles
        split = max(1, min(-(-self.sms // blocks), -(-kv_len // KEY_TILE)))
        blocks *= split
        waves = -(-blocks // self.sms)
        issued = 4.0 * batch * packed * row_tiles * tile * seen * head_dim
        per_block = issued / blocks
        moved = size * batch * head_dim * (2.0 * heads * q_len + 2.0 * kv_heads * kv_len)
        keys = 2.0 * blocks * min(kv_len, -(-kv_len // split)) * head_dim * size
        terms = [
            Term(
                "matrix unit", waves * per_block / (roof * share / self.sms), f"{waves} waves x {per_block:,.0f} FLOP a block of {tile} queries / {share:.0%} of the product's rate",
                f"{FLASH}; {roof_source}; share {origin}",
            ),
            self._l2(keys + size * 2.0 * batch * heads * q_len * head_dim),
            self._off_chip(moved, min(1.0, blocks / self.sms)),
            Term("fill", self.constants["attention_prologue_s"], "first keys, and the last rescaling of the softmax", self.constants.constants["attention_prologue_s"].origin, overlaps=False),
            self._start(),
        ]  # fmt: skip
        decisions = [f"one kernel: scores stay on the SM; {blocks} blocks on {self.sms} SMs"]
        if split > 1:
            decisions.append(f"the {kv_len} keys are split in {split} parts, for there are fewer heads than SMs")
        if rows < tile:
            decisions.append(f"{rows} query rows in a tile of {tile}")
        return KernelCost(tuple(terms), {"offchip": moved, "l2": max(keys, moved)}, useful, max(issued, useful), tuple(decisions))

    def _unfused(self, batch, heads, kv_heads, q_len, kv_len, head_dim, dtype) -> KernelCost:
        scores = self.matmul(q_len, head_dim, kv_len, dtype, batch=batch * heads)
        values = self.matmul(q_len, kv_len, head_dim, dtype, batch=batch * heads)
        size = ITEMSIZE[dtype_name(dtype)] * batch * heads * q_len * kv_len
        softmax = self.reduction(
            batch * heads * q_len, kv_len, dtype, reads=size, writes=size, flops=5 * batch * heads * q_len * kv_len
        )
        parts = (scores, softmax, values)
        terms = tuple(
            Term(p.bound, p.seconds, f"{what}: {p.bound}", GUIDE, overlaps=False)
            for what, p in zip(("scores", "softmax", "values"), parts, strict=True)
        )
        moved = {level: sum(p.bytes.get(level, 0.0) for p in parts) for level in ("offchip", "l2")}
        return KernelCost(
            terms, moved, sum(p.useful_flops for p in parts), sum(p.issued_flops for p in parts), ("three kernels: scores go through memory",)
        )  # fmt: skip

    # -- streams --

    def pointwise(self, elements, dtype, *, reads, writes, flops=0.0, transcendental=0.0, load_share: float = 1.0) -> KernelCost:
        """A loop over elements: bytes through memory, arithmetic beside them.

        load_share  of the streaming rate that the kernel's loads reach: 1 for compiled code with 16-byte loads, less for hand-written scalar ones.
        """
        _positive(elements=elements)
        return self._stream(reads + writes, reads + writes, flops, transcendental, elements, (), load_share)

    def reduction(
        self, rows, cols, dtype, *, reads, writes, flops=0.0, load_share: float = 1.0, row_reads: float | None = None
    ) -> KernelCost:
        """rows x cols, each row to a few numbers and perhaps back over the row.

        A row of up to `one_pass_columns` stays in registers; a longer one is read `long_row_reads` times, from L2 while the rows at work fit there.
        load_share  as for `pointwise`. row_reads: of a kernel that is known to read each row so often from memory, however long.
        """
        _positive(rows=rows, cols=cols)
        again = self.constants["long_row_reads"] if cols > self.constants["one_pass_columns"] else 1.0
        active = min(rows, self.sms * ROWS_PER_SM) * reads / rows
        if row_reads is not None:
            passes, words = row_reads, f"this kernel reads a row {row_reads:g} times from memory"
        elif again == 1:
            passes, words = 1.0, f"a row of {cols} elements stays in registers: read once"
        elif active <= self.l2_keeps:
            passes, words = (
                1.0,
                f"a row of {cols} elements is read again from L2, where the {active / 1e6:.1f} MB of the rows at work stay",
            )
        else:
            passes, words = (
                again,
                f"a row of {cols} elements is read {again:g} times: the {active / 1e6:.1f} MB of the rows at work do not stay in L2",
            )
        return self._stream(
            reads * passes + writes,
            reads + writes,
            flops,
            0.0,
            rows * cols,
            (words,),
            load_share,
            reads * max(again, passes) + writes,
            row_reads is None,
        )

    def gather(self, rows, row_bytes, dtype) -> KernelCost:
        """Rows picked by index: read and written once."""
        _positive(rows=rows, row_bytes=row_bytes)
        return self._stream(2.0 * rows * row_bytes, 2.0 * rows * row_bytes, 0.0, 0.0, rows, ())

    def copy(self, reads, writes) -> KernelCost:
        """Bytes read and written."""
        return self._stream(reads + writes, reads + writes, 0.0, 0.0, max(reads, writes), ())

    def _stream(
        self, moved: float, distinct: float, flops, transcendental, elements, decisions, load_share=1.0, through_l2=None, keeps=True
    ) -> KernelCost:
        vector_peak = self.spec.flops_per_s("float32")
        # A special-function unit gives one result where four FMA lanes give one each (CUDA programming guide, arithmetic throughput).
        work = max(flops - transcendental, 0.0) + 8.0 * transcendental
        # The operands were written by the kernel before: what L2 keeps of them need not come from memory, nor results go there.
        hits = min(1.0, self.l2_keeps / distinct) if distinct else 1.0
        hits = hits if hits > LEAST_HITS and keeps else 0.0
        through_l2 = max(through_l2 or moved, distinct)
        offchip = moved * (1 - hits)
        words = f" ({hits:.0%} of {moved:,.0f} B hit in L2)" if hits else ""
        words += "" if load_share == 1 else f" at {load_share:.0%} of the streaming rate"
        terms = [
            self._off_chip(offchip, words=words, share=load_share),
            Term(
                "on-chip memory", through_l2 / self.l2_bandwidth, f"{through_l2:,.0f} B through L2 / {self.l2_bandwidth / 1e12:.2f} TB/s",
                self._l2_source,
            ),
            Term("vector unit", work / vector_peak, f"{work:,.0f} FLOP / {vector_peak / 1e12:.1f} TFLOP/s", self.spec.peak("float32").source),
            Term(
                "launch", self.constants["stream_latency_s"] * self.start_share,
                f"the device starts the first blocks, which wait for their first loads, and drains the last{self._start_words}",
                self.constants.constants["stream_latency_s"].origin + self._start_source, overlaps=False,
            ),
        ]  # fmt: skip
        return KernelCost(tuple(terms), {"offchip": offchip, "l2": through_l2}, flops, flops, tuple(decisions))


class _Product:
    """Prices the tilings of one matrix product: numbers for every candidate, terms in words for the chosen one."""

    def __init__(
        self,
        gpu: GpuKernels,
        roof: float,
        dtype: str,
        a_size: float,
        b_size: float,
        out: float,
        resident: tuple[str, ...],
        epilogue_bytes: float,
    ):
        self.gpu, self.per_sm, self.dtype, self.a_size, self.b_size, self.out = gpu, roof / gpu.sms, dtype, a_size, b_size, out
        self.resident, self.epilogue_bytes = resident, epilogue_bytes
        c = gpu.constants
        self.reuse, self.exponent = c["saturating_reuse"], c["reuse_exponent"]
        self.split_s, self.multiple = c["split_k_s"], c["sm_bandwidth_multiple"]
        self.prologue_s, self.exposed = c["tile_prologue_s"], c["exposed_epilogue"]

    def fed(self, tiling: Tiling) -> float:
        """Share of the rate at which shared memory can feed the units of an SM with this tile."""
        return min(1.0, (tiling.reuse / self.reuse) ** self.exponent)

    def compute(self, tiling: Tiling) -> float:
        """Seconds of all waves."""
        return tiling.waves * 2.0 * tiling.rows * tiling.columns * tiling.part / (self.per_sm * self.fed(tiling))

    def offchip(self, tiling: Tiling) -> tuple[float, str]:
        """Bytes through off-chip memory, and a remark when operands are read again."""
        a, b = tiling.batch * tiling.m * tiling.k * self.a_size, tiling.batch * tiling.k * tiling.n * self.b_size
        there = (a if "a" in self.resident else 0) + (b if "b" in self.resident else 0)
        if there <= self.gpu.l2_keeps:
            a, b = (0 if "a" in self.resident else a), (0 if "b" in self.resident else b)
        written = tiling.batch * tiling.m * tiling.n * self.out + self.epilogue_bytes
        if a + b > self.gpu.l2_bytes and tiling.waves > 1:
            again = tiling.waves * tiling.wave_bytes(self.a_size, self.b_size) + written
            if again > a + b + written:
                return again, " (operands read again in later waves, they do not stay in L2)"
        return a + b + written, ""

    def fill(self, tiling: Tiling) -> float:
        """Seconds of prologues and epilogues that nothing hides: the first tile's, and a share of every later wave's."""
        return self.prologue_s * (1 + self.exposed * (tiling.waves - 1))

    def partial_bytes(self, tiling: Tiling) -> float:
        """Bytes of partial sums written and read."""
        return 2.0 * tiling.split * tiling.batch * tiling.m * tiling.n * 4 if tiling.split > 1 else 0.0

    def seconds(self, tiling: Tiling) -> float:
        """As `KernelCost.seconds` of `terms`, less what is the same for every tiling."""
        reach = min(1.0, min(1.0, tiling.tiles / self.gpu.sms) * self.multiple)
        longest = max(
            self.compute(tiling), tiling.l2_bytes(self.a_size, self.b_size, self.gpu.cluster) / self.gpu.l2_bandwidth,
            self.offchip(tiling)[0] / (self.gpu.bandwidth * reach),
        )  # fmt: skip
        return (
            longest
            + self.fill(tiling)
            + (self.split_s + self.partial_bytes(tiling) / self.gpu.l2_bandwidth if tiling.split > 1 else 0.0)
        )

    def terms(self, tiling: Tiling, roof_source: str) -> list[Term]:
        """The parts of the time, in words."""
        gpu, fed, constants = self.gpu, self.fed(tiling), self.gpu.constants.constants
        flops = 2.0 * tiling.rows * tiling.columns * tiling.part
        unit = "vector unit" if self.dtype == "float32" else "matrix unit"
        slower = f", fed at {fed:.0%} (reuse {tiling.reuse:.0f})" if fed < 1 else ""
        moved, words = self.offchip(tiling)
        found = [
            Term(unit, self.compute(tiling), f"{tiling.waves} waves x {flops:,.0f} FLOP a tile / {self.per_sm / 1e12:.3f} TFLOP/s an SM{slower}", f"{GUIDE}; {roof_source}"),
            gpu._l2(tiling.l2_bytes(self.a_size, self.b_size, gpu.cluster)),
            gpu._off_chip(moved, min(1.0, tiling.tiles / gpu.sms), words),
            Term(
                "fill", self.fill(tiling), f"first operands of the first tiles, and {self.exposed:.0%} of that again in each of {tiling.waves - 1} later waves",
                f"{constants['tile_prologue_s'].origin}; {constants['exposed_epilogue'].origin}", overlaps=False,
            ),
        ]  # fmt: skip
        if tiling.split > 1:
            partial = self.partial_bytes(tiling)
            words = f"{tiling.split} partial sums in float32 are added through L2 ({partial:,.0f} B)"
            found.append(
                Term(
                    "on-chip memory",
                    self.split_s + partial / gpu.l2_bandwidth,
                    words,
                    constants["split_k_s"].origin,
                    overlaps=False,
                )
            )
        return [*found, gpu._start()]


def _positive(**sizes) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} = {value!r}: expected 1 or more")
