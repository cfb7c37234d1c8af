"""Runs suites and prints a line of JSON for each test, with what went wrong: `run.py MODULE...`."""

import json
import sys
import unittest
from typing import Any


class Report(unittest.TestResult):
    problems = ""

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.problems = ""

    def addError(self, test: Any, err: Any) -> None:
        self.problems += self._exc_info_to_string(err, test)  # type: ignore[attr-defined]

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addError(subtest, err)

    def stopTest(self, test: Any) -> None:
        name = test.id().split(".", 1)[1].replace(".test_", ": ").replace("_", " ")
        print(json.dumps({"name": name, "problems": self.problems}), flush=True)
        super().stopTest(test)


report = Report()


def unraisable(given: Any) -> None:
    """As of a socket that was not closed."""
    report.problems += f"{given.exc_value!r} in {given.object!r}"


sys.unraisablehook = unraisable
unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(report)
