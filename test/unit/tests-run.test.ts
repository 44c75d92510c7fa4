import { describe, expect, test } from 'vitest'
import { provesNothing, testsRun } from '../../src/supervisor/tests-run.ts'

const outputs: readonly [string, string, number | null][] = [
  ['vitest', ' Test Files  2 passed (2)\n      Tests  1 failed | 2 passed | 4 skipped (7)\n   Duration  1.2s', 3],
  ['vitest in colours', '\u001b[2m      Tests \u001b[22m \u001b[32m3 passed\u001b[39m\u001b[90m (3)\u001b[39m\n', 3],
  ['vitest, all skipped', '      Tests  2 skipped (2)\n', 0],
  ['vitest without files', 'No test files found, exiting with code 0\n', 0],
  ['jest', 'Test Suites: 1 passed, 1 total\nTests:       1 skipped, 2 passed, 3 total\nSnapshots:   0 total\n', 2],
  ['jest without tests', 'No tests found, exiting with code 0\n', 0],
  ['mocha', '\n  5 passing (12ms)\n  2 pending\n  1 failing\n', 6],
  ['mocha without tests', '\n  0 passing (1ms)\n', 0],
  ['node --test, TAP', '1..2\n# tests 4\n# suites 0\n# pass 3\n# fail 0\n# cancelled 0\n# skipped 1\n# todo 0\n', 3],
  ['node --test, spec', 'ℹ tests 2\nℹ suites 0\nℹ pass 2\nℹ skipped 0\n', 2],
  ['node --test without tests', '1..0\n# tests 0\n# suites 0\n# pass 0\n# skipped 0\n', 0],
  ['pytest', '===== 1 failed, 2 passed, 1 skipped, 3 warnings in 0.12s =====\n', 3],
  ['pytest -q', '..\n2 passed in 0.01s\n', 2],
  ['pytest, all deselected', '=== 4 deselected in 0.02s ===\n', 0],
  ['pytest without tests', '===== no tests ran in 0.00s =====\n', 0],
  ['unittest', '...\n-----\nRan 3 tests in 0.000s\n\nOK\n', 3],
  ['unittest without tests', 'Ran 0 tests in 0.000s\n\nOK\n', 0],
  [
    'cargo test, doc tests empty',
    'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n   Doc-tests x\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n',
    3,
  ],
  ['cargo test, all filtered out', 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n', 0],
  ['go test -v', '=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- PASS: TestB (0.00s)\nPASS\nok  \tx/y\t0.01s\n', 2],
  ['go test, which gives no number', 'ok  \tx/y\t0.01s\n?   \tx/z\t[no test files]\n', null],
  ['go test without tests', '?   \tx/y\t[no test files]\n', 0],
  ['go test -run of nothing', 'ok  \tx/y\t0.003s [no tests to run]\n', 0],
  ['maven', '[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 2\n', 3],
  ['rspec', '5 examples, 0 failures, 1 pending\n', 4],
  ['phpunit', 'OK (5 tests, 10 assertions)\n', 5],
  ['phpunit without tests', 'No tests executed!\n', 0],
  ['dotnet test', 'Passed!  - Failed:     0, Passed:     4, Skipped:     1, Total:     5, Duration: 3 ms\n', 4],
  ['ctest', '100% tests passed, 0 tests failed out of 7\n', 7],
  ['two runners in one command', '  0 passing (1ms)\n2 passed in 0.01s\n', 2],
  ['no runner', 'All good.\n12 tests would be nice\n', null],
  ['nothing', '', null],
]

describe('how many tests were executed, by the words of the runner', () => {
  test.each(outputs)('%s', (_name, output, tests) => {
    expect(testsRun(output)).toBe(tests)
  })
})

test('none executed proves nothing, unless the command says that none is fine; no word of a runner is no claim', () => {
  expect(provesNothing('npm test', 0)).toContain('no test was executed')
  expect(provesNothing('vitest run --passWithNoTests', 0)).toBe(null)
  expect([provesNothing('npm test', null), provesNothing('npm test', 3)]).toEqual([null, null])
})
