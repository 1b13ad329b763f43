"""nbgrader preprocessors of this course. `grading/nbgrader_config.py` puts them into nbgrader's own chains, so that `nbgrader` on the
command line and Formgrader's buttons follow the same rules as `labkit grade`.

Only that configuration and the grading job import this module: it needs nbgrader at import.
"""

from __future__ import annotations

import builtins
import csv

from nbgrader.api import MissingEntry
from nbgrader.plugins.export import ExportPlugin
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor

from labkit.checks.score import MIMETYPE
from labkit.course import scores
from labkit.course.source import is_instructor


class RemoveInstructorCells(NbGraderPreprocessor):
    """Takes the instructor's cells out of what is released. They stay in source/."""

    def preprocess(self, nb, resources):
        nb.cells = [cell for cell in nb.cells if not is_instructor(cell)]
        return nb, resources


class WithoutWidgetState(NbGraderPreprocessor):
    """After a submission has run: takes out the saved state of widgets, which a page would show through scripts from the network. Without it a page
    takes the picture and the table that the output carries too."""

    def preprocess(self, nb, resources):
        nb.metadata.pop("widgets", None)
        return nb, resources


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

    score = Score(
        reading.points,
        exercise=reading.exercise,
        maximum=reading.maximum,
        messages=filter(None, [*reading.messages, reading.problem]),
        waiting=reading.status == "waiting",
        continued=reading.status == "continued",
    )
    return new_output("execute_result", data=score._repr_mimebundle_(), execution_count=count or 1)


class FeedbackOutputs(NbGraderPreprocessor):
    """In feedback a test cell shows its score with the messages, any cell the name of an error, and no cell any other output.

    A learner's function is called with hidden inputs. It may print them at once, keep them and print them in a later cell, or put them
    into the display of an earlier one, so where an output stands does not say whether hidden tests had begun. A traceback quotes their lines.
    """

    def preprocess_cell(self, cell, resources, cell_index):
        if cell.cell_type != "code":
            return cell, resources
        kept = []
        shown = False
        for output in cell.outputs:
            if output.output_type == "error":
                kept.append(_error_name(output))
            elif (
                scores.is_test_cell(cell)
                and not shown
                and output.output_type == "execute_result"
                and MIMETYPE in output.get("data", {})
            ):
                # Made anew from points and messages: the HTML came from the process in which the learner's code ran.
                kept.append(_result(scores.read_test_cell(cell), cell.execution_count))
                shown = True
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

    # The name of a learner's own class may hold anything, also a hidden input.
    name = str(output.get("ename", ""))
    known = getattr(builtins, name, None)
    name = name if isinstance(known, type) and issubclass(known, BaseException) else "Error"
    return new_output("error", ename=name, evalue="", traceback=[f"{name}: this cell was stopped before its end"])


class ClearHiddenTestsOfTests(ClearHiddenTests):
    """Takes hidden tests out of test cells. A learner may write the words of the delimiter into an answer; nbgrader stops at that."""

    def preprocess_cell(self, cell, resources, cell_index):
        if not scores.is_test_cell(cell):
            return cell, resources
        return super().preprocess_cell(cell, resources, cell_index)


class SafeCsvExport(ExportPlugin):
    """`nbgrader export` with the columns of nbgrader's own CSV, quoted, and with no text that a spreadsheet takes for a formula."""

    def export(self, gradebook):
        from labkit.course.grade_report import safe

        keys = ("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score",
                "late_submission_penalty", "score", "max_score")  # fmt: skip
        with open(self.to or "grades.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(keys)
            for assignment in gradebook.assignments:
                for student in gradebook.students:
                    if (self.assignment and assignment.name not in self.assignment) or (
                        self.student and student.id not in self.student
                    ):
                        continue
                    try:
                        submission = gradebook.find_submission(assignment.name, student.id)
                    except MissingEntry:
                        timestamp, raw, penalty = None, 0.0, 0.0
                    else:
                        timestamp, raw, penalty = submission.timestamp, submission.score, submission.late_submission_penalty or 0.0
                    about = (
                        assignment.name,
                        assignment.duedate,
                        timestamp,
                        student.id,
                        student.last_name,
                        student.first_name,
                        student.email,
                    )
                    numbers = (raw, penalty, max(0.0, raw - penalty), assignment.max_score)
                    writer.writerow([*(safe("" if v is None else str(v)) for v in about), *numbers])
