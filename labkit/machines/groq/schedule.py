"""`Program`: the schedule of one kernel, built instruction by instruction; its cycles are the kernel's time.

The parts of a kernel follow one another, each beginning when what it reads is written:

    product   weight tiles into the planes' buffers while the planes stream rows through the tiles before; sums leave after the last tile of K
    sweep     vectors out of SRAM, through a chain of vector ALUs, and back
    lanes     the lanes of a vector added up, or compared, through the switch
    exchange  vectors to the other chips of a node, and theirs back

Repeated blocks are single entries (`Instruction.repeats`), so that a product of thousands of tiles stays short.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from labkit.machines.groq.slices import (
    ACTIVATIONS,
    ALUS,
    MATRIX,
    SHUFFLE,
    SIDES,
    SUPERLANES,
    VECTOR_BYTES,
    WEIGHT_SLICES,
    Delays,
    distance,
)  # fmt: skip
from labkit.machines.mapping import Instruction, StreamSchedule

TILE_COLUMNS = 320
SUM_STREAMS = 4
"""Streams of a vector of 32-bit sums."""
RESULT_STREAMS = 2
"""Streams of a vector of 16-bit results."""


@dataclass(frozen=True)
class Format:
    """What the planes multiply. rows: of a weight tile (K); planes: side by side in a hemisphere; fill: cycles to bring in a tile of each.

    widened  weights lie in SRAM with one byte or less, and the vector unit makes 16-bit numbers of them on the way.
    """

    name: str
    rows: int
    planes: int
    fill: int
    widened: bool = False

    @property
    def arrays(self) -> int:
        """Tiles that the chip streams rows through at the same time."""
        return 2 * self.planes


FLOAT16 = Format("float16", 160, 1, 20)
"""A pair of planes is one array: 160 x 320 weights of 2 B, 16 streams for 20 cycles."""
INT8 = Format("int8", 320, 2, 40)
WIDENED = Format("float16 of narrower weights", 160, 1, 40, True)
"""Half of the vector ALUs make 8 streams of 16-bit weights of 4 narrower ones in each hemisphere, so that a tile takes 40 cycles."""


@dataclass(frozen=True)
class Division:
    """How a product is divided over the arrays of a chip. blocks: of rows; parts: of K, on as many arrays, added in the vector unit.

    turns   blocks of results, one after another; steps: weight tiles of each; rows: streamed through each tile; period: cycles from one tile to the
            next; last: of a block's last tile, longer where the vector unit is slower than the arrays.
    """

    blocks: int
    parts: int
    turns: int
    steps: int
    rows: int
    period: int
    last: int
    slow: int

    @property
    def cycles(self) -> int:
        """From the first row of the first tile to the last of the last."""
        return self.turns * ((self.steps - 1) * self.period + self.last)


def divisions(m: int, k: int, n: int, batch: int, form: Format, ops: float, delays: Delays) -> tuple[Division, ...]:
    """The best division for every number of parts of K."""
    tiles_k, tiles_n = -(-k // form.rows), -(-n // TILE_COLUMNS)
    best = []
    for parts in (p for p in (1, 2, 4) if form.arrays % p == 0):
        lanes = form.arrays // parts
        slow = max(ceil(lanes * (ops + parts) / (ALUS // 2 if form.widened else ALUS)), 1)
        steps = -(-tiles_k // parts)
        fewest = -(-m // delays.accumulator_rows)
        tried = []
        for blocks in range(fewest, max(fewest, -(-m // form.fill)) + 1):
            rows = -(-m // blocks)
            period = max(form.fill, rows) + delays.swap
            last = max(form.fill, rows * slow) + delays.swap
            tried.append(Division(blocks, parts, -(-batch * tiles_n * blocks // lanes), steps, rows, period, last, slow))
        best.append(min(tried, key=lambda d: (d.cycles, d.blocks)))
    return tuple(best)


class Program:
    """A kernel's schedule in the making. now: first cycle at which the next part can read what those before have written."""

    def __init__(self, delays: Delays):
        self.delays = delays
        self.now = 0
        self.made: list[Instruction] = []
        self.spent: dict[str, int] = {}

    def _add(
        self,
        unit: str,
        start: int,
        cycles: int,
        streams: int,
        what: str,
        delay: int = 0,
        to: tuple[str, ...] = (),
        repeats: int = 1,
        every: int = 0,
    ):
        self.made.append(Instruction(unit, start, cycles, streams, what, repeats, every if repeats > 1 else 0, delay, to))

    def _spend(self, cause: str, cycles: int) -> None:
        self.spent[cause] = self.spent.get(cause, 0) + cycles

    def schedule(self, m: int, k: int, n: int, tile=(0, 0), tiles: int = 0, rows: int = 0, chips: int = 1) -> StreamSchedule:
        """The finished schedule: its end is when the last superlane has what the last part wrote."""
        issued = max(one.end for one in self.made)
        return StreamSchedule(m, k, n, tile, tiles, rows, chips, tuple(self.made), max(self.now - issued, 0) + SUPERLANES)

    # -- matrix products --

    def product(
        self, m: int, k: int, n: int, batch: int, form: Format, *, ops: float = 0.0, operands: float = 0.0, what: str = "rows"
    ) -> Division:
        """`batch` products [m, k] x [k, n]; ops, operands: vector operations and further 16-bit operands for each element of the result.

        Returns the division with the fewest cycles.
        """
        chosen = min(divisions(m, k, n, batch, form, ops, self.delays), key=lambda d: (d.cycles, d.parts))
        d, t0 = self.delays, self.now
        total = chosen.turns * chosen.steps
        turn = (chosen.steps - 1) * chosen.period + chosen.last
        regular = chosen.last == chosen.period
        arrive = self._weights_at(form, t0)
        first = arrive + form.fill + d.swap
        groups = (
            [(0, (total + 1) // 2, 2 * chosen.period), (1, total // 2, 2 * chosen.period)]
            if regular
            else [(step, chosen.turns, turn) for step in range(chosen.steps)]
        )
        for step, repeats, every in groups:
            if repeats:
                self._load(form, arrive + step * chosen.period, step % 2, repeats, every)
        passes = [(0, total, chosen.period)] if regular else [(step, chosen.turns, turn) for step in range(chosen.steps)]
        for step, repeats, every in passes:
            slow = chosen.slow if step == chosen.steps - 1 and not regular else 1
            self._pass(form, first + step * chosen.period, chosen.rows, slow, repeats, every, what)
        self._sums(form, chosen, first + (chosen.steps - 1) * chosen.period, turn, ops, operands)
        streamed = chosen.turns * chosen.steps * chosen.rows
        vectors = chosen.turns * max(chosen.last - d.swap - max(form.fill, chosen.rows), 0)
        self._spend("matrix unit", streamed)
        if vectors:
            self._spend("vector unit", vectors)
        self._spend("weight load", chosen.cycles - streamed - vectors)
        return chosen

    def _weights_at(self, form: Format, start: int) -> int:
        """When the first weights of a product that begins at `start` reach the planes."""
        if not form.widened:
            return start + self.delays.read + MATRIX - (ACTIVATIONS + 1)
        return start + self.delays.read + ACTIVATIONS + WEIGHT_SLICES // 4 + self.delays.vector + MATRIX

    def _load(self, form: Format, arrive: int, group: int, repeats: int, every: int) -> None:
        """A tile for every array of both hemispheres, out of one of two groups of slices, which take turns."""
        d = self.delays
        ports = tuple(f"MXM {side} weights" for side in SIDES)
        streams = WEIGHT_SLICES
        if not form.widened:
            first = ACTIVATIONS + 1 + group * WEIGHT_SLICES
            for side, port in zip(SIDES, ports, strict=True):
                source = f"MEM {side}{first}-{first + WEIGHT_SLICES - 1} read"
                self._add(
                    source,
                    arrive - d.read - distance(source, port),
                    form.fill,
                    streams,
                    "read weights",
                    d.read,
                    (port,),
                    repeats,
                    every,
                )
        else:
            count = WEIGHT_SLICES // 4
            last = ACTIVATIONS + count * (group + 1)
            out = arrive - MATRIX - d.vector
            streams = WEIGHT_SLICES // 2
            for side in SIDES:
                source = f"MEM {side}{last}-{last - count + 1} read"
                self._add(source, out - d.read - last, form.fill, count, "read weights", d.read, ("VXM 8-15",), repeats, every)
            self._add("VXM 8-15", out, form.fill, streams, "widen weights", d.vector, ports, repeats, every)
        for port in ports:
            self._add(port, arrive, form.fill, streams, "load weights", repeats=repeats, every=every)

    def _planes(self, form: Format) -> list[str]:
        """Names of the arrays."""
        return [f"MXM {side}{plane if form.planes > 1 else ''}" for side in SIDES for plane in range(form.planes)]

    def _pass(self, form: Format, start: int, rows: int, slow: int, repeats: int, every: int, what: str) -> None:
        """Weights into place, then the rows of activations, one in `slow` cycles."""
        d, cycles = self.delays, rows * slow
        words = (f"{rows} {what}" if rows > 1 else f"1 {what.replace('rows', 'row', 1)}") + (
            f", one in {slow} cycles" if slow > 1 else ""
        )
        for array in self._planes(form):
            side, plane = array[4], int(array[5:] or 0)
            source = f"MEM {side}{plane + 1} read"
            self._add(
                source, start - d.read - distance(source, array), cycles, 1, "read activations", d.read, (array,), repeats, every
            )
            self._add(array, start - d.swap, d.swap, 0, "put weights in place", repeats=repeats, every=every)
            self._add(
                array,
                start,
                cycles,
                1,
                words,
                d.matrix,
                repeats=repeats,
                every=every,
            )

    def _sums(self, form: Format, chosen: Division, start: int, every: int, ops: float, operands: float) -> None:
        """Sums of the last tile of K to the vector unit, through its chain, and into SRAM on both sides."""
        d, cycles, repeats = self.delays, chosen.rows * chosen.slow, chosen.turns
        out, lanes = start + d.matrix, form.arrays // chosen.parts
        vector = "VXM 0-7" if form.widened else "VXM"
        for array in self._planes(form):
            self._add(f"{array} sums", out, cycles, SUM_STREAMS, "sums over K", 0, (vector,), repeats, every)
        at = out + MATRIX
        self._operands(ceil(operands * RESULT_STREAMS * lanes / 2), at, cycles, vector, repeats, every)
        chain = max(ceil(ops + chosen.parts), 1)
        delay = d.vector * min(chain, ALUS)
        width = RESULT_STREAMS * lanes
        targets = tuple(f"MEM {side}3-{2 + width} write" for side in SIDES)
        words = "round" if chain == 1 else f"{chain} operations an element"
        self._add(vector, at, cycles, width, words, delay, targets, repeats, every)
        for target in targets:
            self._add(target, at + delay + 3, cycles, width, "write results", d.write, (), repeats, every)
        self.now = at + delay + 3 + width - 1 + (repeats - 1) * every + cycles + d.write

    def _operands(self, each: int, at: int, cycles: int, vector: str, repeats: int, every: int) -> None:
        """Further operands of the chain, `each` streams from either side, at most as many as slices hold activations beside the product's own."""
        each = min(each, ACTIVATIONS - 2)
        if not each:
            return
        last = 2 + each
        for side in SIDES:
            self._add(
                f"MEM {side}{last}-3 read",
                at - self.delays.read - last,
                cycles,
                each,
                "read operands",
                self.delays.read,
                (vector,),
                repeats,
                every,
            )

    # -- vectors --

    def sweep(self, reads: int, writes: int, ops: float, chain: int = 1, what: str = "") -> None:
        """`reads` vectors through a chain of vector ALUs that do `ops` operations in all, and `writes` vectors into SRAM on both sides."""
        d, t0 = self.delays, self.now
        by_memory = max(-(-reads // (2 * ACTIVATIONS)), -(-writes // ACTIVATIONS), 1)
        by_vector = ceil(ops / (ALUS * VECTOR_BYTES))
        cycles = max(by_memory, by_vector)
        west = -(-reads // cycles)
        counts = {"W": -(-west // 2), "E": west // 2}
        at = t0 + d.read + max(counts["W"], 1)
        for side, count in counts.items():
            if count:
                source = f"MEM {side}{count}-1 read" if count > 1 else f"MEM {side}1 read"
                self._add(source, at - d.read - count, cycles, count, "read operands", d.read, ("VXM",))
        delay = d.vector * max(min(chain, ALUS), 1)
        width = -(-writes // cycles)
        targets = tuple(f"MEM {side}1-{width} write" if width > 1 else f"MEM {side}1 write" for side in SIDES) if width else ()
        self._add("VXM", at, cycles, width or max(west, 1), what or f"{chain} operations an element", delay, targets)
        for target in targets:
            self._add(target, at + delay + 1, cycles, width, "write results", d.write)
        self.now = at + delay + cycles + (width + d.write if width else 0)
        self._spend("vector unit" if by_vector > by_memory else "on-chip memory", cycles)

    def lanes(self, rows: int, what: str) -> None:
        """One number for each of `rows` rows out of the lanes of a vector, for all lanes: 16 rows at a time through the switch, a few times."""
        d, begun, chain = self.delays, self.now, 4 * self.delays.vector
        trip = chain + 2 * SHUFFLE + d.switch
        # A stream does not wait: the first vectors come back when the last ones have left, at the earliest.
        batches = -(-rows // (16 * trip))
        cycles, wide = -(-rows // (16 * batches)), min(rows, 16)
        every = d.lane_trips * trip + cycles
        for start in range(self.now, self.now + d.lane_trips * trip, trip):
            self._add("VXM", start, cycles, wide, what, chain, ("SXM E",), batches, every)
            self._add("SXM E", start + chain + SHUFFLE, cycles, wide, "turn lanes", d.switch, ("VXM",), batches, every)
        self._add("VXM", self.now + d.lane_trips * trip, cycles, wide, what, chain, (), batches, every)
        self.now += batches * every + chain
        self._spend("latency", self.now - begun)

    def move(self, reads: int, writes: int, what: str) -> None:
        """Vectors out of SRAM through the switch and back."""
        d, t0 = self.delays, self.now
        cycles = max(-(-reads // (2 * ACTIVATIONS)), -(-writes // (2 * ACTIVATIONS)), 1)
        each = max(-(-reads // (2 * cycles)), 1)
        back = max(-(-writes // (2 * cycles)), 1)
        for side in SIDES:
            source, target = f"MEM {side}1-{each} read", f"MEM {side}{back}-1 write"
            at = t0 + d.read + SHUFFLE - 1
            self._add(source, t0, cycles, each, "read", d.read, (f"SXM {side}",))
            self._add(f"SXM {side}", at, cycles, each, what, d.switch, (target,))
            self._add(target, at + d.switch + SHUFFLE - back, cycles, back, "write", d.write)
        self.now = t0 + d.read + 2 * SHUFFLE - 2 + d.switch + cycles + d.write
        self._spend("on-chip memory", cycles)

    def fetch(self, vectors: int) -> None:
        """Vectors whose addresses come out of SRAM: an index, its address, the vectors, and a place for them."""
        d, t0 = self.delays, self.now
        last = 2 * ACTIVATIONS
        cycles = -(-vectors // ACTIVATIONS)
        source, near, far = f"MEM E{last}-{ACTIVATIONS + 1} read", f"MEM E{ACTIVATIONS}-1 write", f"MEM W1-{ACTIVATIONS} write"
        self._add("MEM E1 read", t0, cycles, 1, "read indices", d.read, ("VXM 0-7",))
        at = t0 + d.read + 1
        self._add("VXM 0-7", at, cycles, 1, "addresses", d.vector, (source,))
        fetched = at + d.vector + last
        self._add(source, fetched, cycles, ACTIVATIONS, "read the rows", d.read, (near, "VXM 8-15"))
        back = fetched + d.read + last
        self._add(near, back - ACTIVATIONS, cycles, ACTIVATIONS, "write", d.write)
        self._add("VXM 8-15", back, cycles, ACTIVATIONS, "pass on", d.vector, (far,))
        self._add(far, back + d.vector + 1, cycles, ACTIVATIONS, "write", d.write)
        self.now = back + d.vector + ACTIVATIONS + cycles + d.write
        self._spend("on-chip memory", cycles)

    # -- other chips --

    def exchange(self, vectors: int, links: int, hop: int, each: int, what: str, add: bool = False) -> None:
        """`vectors` vectors over each of `links` links, and as many in; hop: cycles from a chip to its neighbour, each: cycles of a vector on a link.

        add  what came in is added to what is here, in the vector unit.
        """
        d, t0 = self.delays, self.now
        source = f"MEM E3-{2 + links} read" if links > 1 else "MEM E3 read"
        self._add(source, t0, 1, links, "read", d.read, ("C2C E out",), vectors, each)
        out = t0 + d.read + distance(source, "C2C E out")
        self._add("C2C E out", out, each, links, what, 0, (), vectors, each)
        came = out + hop + each
        target = "VXM" if add else (f"MEM E{2 + links}-3 write" if links > 1 else "MEM E3 write")
        self._add("C2C E in", came, 1, links, f"{what}: in", 0, (target,), vectors, each)
        at = came + distance("C2C E in", target)
        if add:
            self._add("MEM W3 read", at - d.read - 3, 1, 1, "read own", d.read, ("VXM",), vectors, each)
            self._add("VXM", at, 1, 1, "add", d.vector * 3, ("MEM E3 write",), vectors, each)
            at += d.vector * 3 + 3
            target = "MEM E3 write"
        self._add(target, at, 1, 1 if add else links, "write", d.write, (), vectors, each)
        self.now = at + (vectors - 1) * each + (1 if add else links) + d.write
        self._spend("links", vectors * each)
        self._spend("latency", hop)
