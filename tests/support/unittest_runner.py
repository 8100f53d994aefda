"""Runs the test cases of a module, and closes with `N passed, N failed` like the other parts."""
import sys
import unittest


class _Result(unittest.TextTestResult):
    """Prints one line for each test."""

    def startTest(self, test):
        super(unittest.TextTestResult, self).startTest(test)

    def _line(self, word, test):
        self.stream.writeln("%s %s.%s" % (word, type(test).__name__, test._testMethodName))
        self.stream.flush()

    def addSuccess(self, test):
        super(unittest.TextTestResult, self).addSuccess(test)
        self._line("pass", test)

    def addSubTest(self, test, subtest, err):
        super(unittest.TextTestResult, self).addSubTest(test, subtest, err)
        if err is not None:
            self._line("FAIL", test)

    def addFailure(self, test, err):
        super(unittest.TextTestResult, self).addFailure(test, err)
        self._line("FAIL", test)

    def addSkip(self, test, reason):
        super(unittest.TextTestResult, self).addSkip(test, reason)
        self.stream.writeln("skipped %s.%s: %s"
                            % (type(test).__name__, test._testMethodName, reason))

    def addError(self, test, err):
        super(unittest.TextTestResult, self).addError(test, err)
        self.stream.writeln("FAIL %s" % test)


def test_of(problem):
    """Returns the name of the test that a problem belongs to."""
    return getattr(problem, "test_case", problem).id()


def run(module):
    """Runs the tests of a module. Returns the exit status. Arguments of the program name single tests."""
    loader = unittest.TestLoader()
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names, module) if names \
        else loader.loadTestsFromModule(module)
    count = suite.countTestCases()
    result = unittest.TextTestRunner(sys.stdout, resultclass=_Result, verbosity=0).run(suite)
    # A test with several failed sub-tests counts once. A failure of the whole module fails all its tests.
    failed = len({test_of(problem) for problem, _ in result.failures + result.errors})
    failed = failed if result.testsRun else count
    print("%d passed, %d failed" % (max(0, count - failed), failed))
    return 0 if failed == 0 and count > 0 else 1
