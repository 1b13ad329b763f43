"""nbgrader configuration of the course. `labkit grade COURSE LAB --prepare` copies it into COURSE; edit the copy there.

nbgrader on the command line and Formgrader read the same copy, so the grades follow the same rules.
"""

from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.preprocessors import Execute

from labkit.course.preprocessors import (
    ClearHiddenTestsOfTests,
    FeedbackOutputs,
    RemoveInstructorCells,
    SafeCsvExport,
    ScoresOnly,
    WithoutWidgetState,
)

c = get_config()  # noqa: F821 - nbgrader defines it

# A warning is not a failure: nbgrader gives 0 to a test cell with anything on stderr. (?s) lets the dot cross line ends, and a pattern
# that also matches the empty text leaves nothing over.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = r"(?s).*"

# Seconds per cell; `labkit grade --cell-timeout` overrides it.
c.Execute.timeout = 60

# ScoresOnly stands between running and grading: nbgrader gives full points to NaN, negative, non-numeric and missing values.
_chain = list(Autograde.autograde_preprocessors.default_args[0])
_chain[_chain.index(Execute) + 1 : _chain.index(Execute) + 1] = [WithoutWidgetState, ScoresOnly]
c.Autograde.autograde_preprocessors = _chain

# Instructor cells stay in source/ and never reach release/.
c.GenerateAssignment.preprocessors = [RemoveInstructorCells, *GenerateAssignment.preprocessors.default_args[0]]

# nbgrader's feedback holds the hidden tests.
c.GenerateFeedback.preprocessors = [FeedbackOutputs, ClearHiddenTestsOfTests, *GenerateFeedback.preprocessors.default_args[0]]

# nbgrader's own CSV quotes nothing: a comma in a name shifts the columns, and a formula stays one.
c.ExportApp.plugin_class = SafeCsvExport

# Keep what learners read short.
c.LimitOutput.max_lines = 200
c.LimitOutput.max_traceback = 40

# Several people grading at once, or a large class: PostgreSQL instead of the file gradebook.db.
# c.CourseDirectory.db_url = "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
