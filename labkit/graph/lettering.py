"""How wide a text is, without a font at hand: advance widths of DejaVu Sans 2.37, in thousandths of the size, of characters 32 to 126.

The picture asks for DejaVu Sans and names Verdana, which has its widths, and the browser's own sans-serif, which is narrower: text may end
earlier than its box, not later.
"""

from __future__ import annotations

FAMILY = "DejaVu Sans, Verdana, Geneva, sans-serif"
SMALL, LARGE = 12, 13
"""Sizes in CSS pixels: 12 px are 9 pt."""

_WIDTHS = {
    False: (
        318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337,
        838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989,
        685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521,
        392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
    ),
    True: (
        348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696, 696, 696, 696, 400, 400,
        838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850, 733, 850, 770, 720, 682, 812, 774, 1103,
        771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716, 678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595,
        478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838,
    ),
}  # fmt: skip


def width(text: str, size: float = SMALL, bold: bool = False) -> int:
    """Pixels that the text takes at most, rounded up. A character outside of ASCII counts as the widest letter."""
    table = _WIDTHS[bold]
    total = sum(table[ord(c) - 32] if 32 <= ord(c) < 127 else 1000 for c in text)
    return int(-(-total * size // 1000))


def wrapped(text: str, room: float, size: float = SMALL, bold: bool = False) -> list[str]:
    """The text in lines that fit in `room` pixels, broken at spaces; a word that is longer gets a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and width(f"{lines[-1]} {word}", size, bold) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
