"""nbgrader preprocessors of this course. `grading/nbgrader_config.py` puts them into nbgrader's own chains, so that `nbgrader` on the
command line and Formgrader's buttons follow the same rules as `labkit grade`.

Only that configuration and the grading job import this module: it needs nbgrader at import.
"""

from __future__ import annotations

from nbgrader.preprocessors import NbGraderPreprocessor

from labkit.checks.score import MIMETYPE
from labkit.course import scores


class RemoveInstructorCells(NbGraderPreprocessor):
    """Takes the instructor's cells out of what is released. They stay in source/."""

    def preprocess(self, nb, resources):
        nb.cells = [cell for cell in nb.cells if not is_instructor_cell(cell)]
        return nb, resources


def is_instructor_cell(cell) -> bool:
    """True for a cell that is never released (header `instructor="true"` in solutions/)."""
    return bool(cell.metadata.get("labkit", {}).get("instructor"))


class ScoresOnly(NbGraderPreprocessor):
    """Before nbgrader reads the grades: a test cell earns what its Score says and nothing else.

    Whatever else the cell shows is replaced by a score of 0 (or the clamped one) that says why. Leaves in each code cell's
    metadata, under labkit.grading: stderr (text, shortened), and for test cells problem and shown.
    """

    def preprocess_cell(self, cell, resources, cell_index):
        if cell.cell_type != "code":
            return cell, resources
        record = {}
        if text := "".join(scores.stderr_texts(cell)).strip():
            record["stderr"] = text[:2000]
        if scores.is_test_cell(cell):
            reading = scores.read_test_cell(cell)
            record["problem"] = reading.problem
            raised = any(o.output_type == "error" for o in cell.outputs)
            if reading.problem and not raised:
                record["shown"] = [
                    str(o.get("data", {}).get("text/plain", ""))[:200] for o in cell.outputs if o.output_type == "execute_result"
                ]
                kept = [o for o in cell.outputs if o.output_type != "execute_result"]
                cell.outputs = [*kept, _result(reading, cell.execution_count)]
        marks = dict(cell.metadata.get("labkit", {}))
        marks.pop("grading", None)
        if record:
            marks["grading"] = record
        if marks:
            cell.metadata["labkit"] = marks
        return cell, resources


def _result(reading: scores.Reading, count):
    from nbformat.v4 import new_output

    from labkit.checks.score import Score

    score = Score(reading.points, exercise=reading.exercise, maximum=reading.maximum, messages=[*reading.messages, reading.problem])
    return new_output("execute_result", data=score._repr_mimebundle_(), execution_count=count or 1)


class FeedbackOutputs(NbGraderPreprocessor):
    """In feedback a test cell shows its score, its messages, and the name of an error: not what ran while hidden tests ran.

    A learner's function is called with hidden inputs and may print them; a traceback quotes the lines of the hidden tests.
    """

    def preprocess_cell(self, cell, resources, cell_index):
        if not scores.is_test_cell(cell):
            return cell, resources
        kept = []
        for output in cell.outputs:
            if output.output_type == "error":
                kept.append(_error_name(output))
            elif output.output_type == "execute_result" and MIMETYPE in output.get("data", {}):
                kept.append(output)
        dropped = len(cell.outputs) - len(kept)
        if dropped:
            from nbformat.v4 import new_output

            kept.append(
                new_output(
                    "stream", name="stdout", text=f"({dropped} other output{'s' if dropped > 1 else ''} of this cell not shown)\n"
                )
            )
        cell.outputs = kept
        return cell, resources


def _error_name(output):
    from nbformat.v4 import new_output

    name = str(output.get("ename", "Error"))[:80]
    return new_output("error", ename=name, evalue="", traceback=[f"{name}: this cell was stopped before it could give points"])
