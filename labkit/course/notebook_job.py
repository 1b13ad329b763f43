"""The process that executes one notebook with papermill: `python -m labkit.course.notebook_job JOB.json`."""

from __future__ import annotations

import sys

from labkit.course.execution import read_job

SENTINEL = "labkit-sentinel"


def main(argv: list[str]) -> int:
    """Job: notebook, output, parameters, cell_timeout (seconds), kernel (name), work (working folder), sentinel (text). Events: start (cells),
    cell_start and cell_end (index), end (outcome, index, text)."""
    job, report = read_job(argv)
    import nbformat
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.engines import NBClientEngine, papermill_engines

    current = {"index": None}

    class Reporting(NBClientEngine):
        """papermill's own engine, saying which cell it is at."""

        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, **options):
            begin, complete = nb_man.cell_start, nb_man.cell_complete

            def cell_start(cell, cell_index=None, **more):
                current["index"] = cell_index
                report("cell_start", index=cell_index)
                return begin(cell, cell_index, **more)

            def cell_complete(cell, cell_index=None, **more):
                complete(cell, cell_index=cell_index, **more)
                report("cell_end", index=cell_index, seconds=(cell.metadata.get("papermill") or {}).get("duration") or 0.0)

            nb_man.cell_start, nb_man.cell_complete = cell_start, cell_complete
            report("start", cells=[_label(cell, i) for i, cell in enumerate(nb_man.nb.cells)])
            try:
                return super().execute_managed_notebook(nb_man, kernel_name, **options)
            finally:
                # A page would show the state of widgets through scripts from the network; without it, the output's own picture and table. Taken out
                # here: a client that is told to keep none loses what is printed into an Output widget, and stops (nbclient, output_widget.py).
                nb_man.nb.metadata.pop("widgets", None)

    papermill_engines.register("labkit", Reporting)
    notebook = nbformat.read(job["notebook"], as_version=4)
    sentinel = nbformat.v4.new_code_cell(repr(job["sentinel"]), id=SENTINEL)
    notebook.cells.append(sentinel)
    try:
        papermill.execute_notebook(
            notebook, job["output"], parameters=job["parameters"], engine_name="labkit", kernel_name=job["kernel"],
            progress_bar=False, cwd=job["work"], execution_timeout=job["cell_timeout"],
        )  # fmt: skip
    except papermill.PapermillExecutionError as error:
        report("end", outcome="cell failed", index=current["index"], text=f"{error.ename}: {error.evalue}")
    except CellTimeoutError:
        report("end", outcome="cell timed out", index=current["index"], text=f"over {job['cell_timeout']:g} s")
    except DeadKernelError as error:
        report("end", outcome="kernel died", index=current["index"], text=str(error))
    else:
        report("end", outcome="ran", index=current["index"], text="")
    return 0


def _label(cell, index: int) -> str:
    """How a person finds a cell: its id, else its number. Injected cells have ids of their own that nobody knows."""
    if "injected-parameters" in cell.metadata.get("tags", []):
        return "injected-parameters"
    return str(cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id") or f"cell {index}")


if __name__ == "__main__":
    sys.exit(main(sys.argv))
