"""The self-check that opens the course: do I have what the labs build on? Unscored, unlocked, with a pointer for what is missing.

The right answer of a question is what its code gives when it is run here, so no answer is typed in.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """text: what is asked. code: runs and leaves the answer in `answer`. choices: what may be answered. pointer: where to read.
    shown: whether the learner sees the code, which is the question, or it is only how the answer is computed."""

    text: str
    code: str
    choices: tuple[str, ...]
    pointer: str
    shown: bool = True

    def answer(self) -> str:
        """The right choice: str() of what the code leaves in `answer`. Raises ValueError when it is no choice."""
        names: dict = {}
        exec(self.code, names)
        given = str(names["answer"])
        if given not in self.choices:
            raise ValueError(f"the question's code gives {given!r}, which is none of {self.choices}")
        return given


QUESTIONS: dict[str, Question] = {
    "closures": Question(
        "Python: what does the list at the end hold?",
        "functions = [lambda: i for i in range(3)]\nanswer = [f() for f in functions]",
        ("[0, 1, 2]", "[2, 2, 2]", "[0, 0, 0]"),
        "A lambda looks its free variables up when it is called. Read: the Python tutorial, section on scopes and namespaces; you pass work as functions in every lab.",
    ),
    "views": Question(
        "PyTorch tensors: what is in x afterwards?",
        "import torch\nx = torch.zeros(2, 2)\nx.t()[0, 1] = 5\nanswer = x.tolist()",
        ("[[0.0, 0.0], [5.0, 0.0]]", "[[0.0, 5.0], [0.0, 0.0]]", "[[0.0, 0.0], [0.0, 0.0]]"),
        "A transpose is a view: other strides on the same memory. Read: PyTorch's documentation on tensor views; which views are free decides a good part of Lab 2.",
    ),
    "parameters": Question(
        "PyTorch modules: how many parameters does the module have?",
        "from torch import nn\nmodule = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))\nanswer = sum(p.numel() for p in module.parameters())",
        ("40", "44", "46"),
        "A linear layer has a weight [out, in] and, unless told otherwise, a bias [out]. Read: PyTorch's tutorial on building models; the labs follow one nn.Module throughout.",
    ),
    "matmul-flops": Question(
        "Arithmetic: how many floating-point operations does a [64, 128] by [128, 32] matrix product take, counting multiplications and additions?",
        "products_for_one_element = 128\nanswer = 2 * products_for_one_element * (64 * 32)",
        ("262144", "524288", "16384"),
        "Every element of the result is a dot product over the shared dimension. Read: the first pages on matrix multiplication of any numerical linear algebra book; exercise operator-cost builds on it.",
        shown=False,
    ),
    "gqa": Question(
        "Transformers: queries have 32 heads, keys and values 8. How many query heads use the same key head?",
        "answer = 32 // 8",
        ("4", "8", "32"),
        "This is grouped-query attention. Read: Ainslie et al. 2023, arXiv:2305.13245, sections 1 and 2; the course's model uses it.",
        shown=False,
    ),
}


class SelfCheck:
    """The replies, as a table. Nothing is kept and nothing is scored."""

    def __init__(self, rows: list[tuple[str, str, str, str]]):
        self.rows = rows

    @property
    def summary(self) -> str:
        """One sentence."""
        right = sum(row[2] == "right" for row in self.rows)
        said = f"{right} of {len(self.rows)} right. Unscored: it tells you what to look up, and nobody else anything."
        return said + (" You have what the labs build on." if right == len(self.rows) else "")

    def __repr__(self) -> str:
        return "\n".join(
            [
                *(
                    f"{name}: {verdict}" + (f" ({given})" if given else "") + (f". {why}" if why else "")
                    for name, given, verdict, why in self.rows
                ),
                self.summary,
            ]
        )

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="text-align:left">{h}</th>' for h in ("question", "your answer", "reply", "pointer"))
        body = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
            + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in cells)
            + "</tr>"
            for name, *cells in self.rows
        )
        return f'<div role="status"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(self.summary)}</p></div>'


def self_check(answers: Mapping[str, str | None]) -> SelfCheck:
    """Replies to answers by question name; None leaves a question open. Raises ValueError for an unknown question or an answer that is no choice."""
    unknown = sorted(set(answers) - set(QUESTIONS))
    if unknown:
        raise ValueError(f"no question {', '.join(map(repr, unknown))}; there are {', '.join(QUESTIONS)}")
    rows = []
    for name, question in QUESTIONS.items():
        given = answers.get(name)
        if given is None:
            rows.append((name, "", "open", ""))
            continue
        if str(given) not in question.choices:
            raise ValueError(f"{name}: got {given!r}; choose one of {', '.join(map(repr, question.choices))}, or None")
        right = str(given) == question.answer()
        rows.append((name, str(given), "right" if right else "not yet", "" if right else question.pointer))
    return SelfCheck(rows)


def questions_markdown() -> str:
    """The questions as Markdown: text, code, choices. Code that only computes the answer is left out."""
    parts = []
    for name, question in QUESTIONS.items():
        shown = f"\n```python\n{question.code}\n```\n" if question.shown else ""
        parts.append(f"**`{name}`** {question.text}\n{shown}\nChoices: " + ", ".join(f"`{choice}`" for choice in question.choices))
    return "\n\n".join(parts)
