/** A line of a runner's summary that says how many tests there were: what was executed, skipped ones left out. */
interface Summary {
  readonly runner: string
  /** Global; its named group `n` (executed) is summed over all lines, or `all` less `skipped`; without groups it says none ran. */
  readonly line: RegExp
}

const summaries: readonly Summary[] = [
  // Tests  1 failed | 2 passed | 1 skipped (4)
  { runner: 'vitest', line: /^\s*Tests {2,}(?<list>\d+ \w+(?: \| \d+ \w+)*) \(\d+\)/gm },
  { runner: 'vitest', line: /^\s*No test files found/gm },
  // Tests:       1 failed, 1 skipped, 2 passed, 4 total
  { runner: 'jest', line: /^Tests: +(?<list>\d+ \w+(?:, \d+ \w+)*), \d+ total/gm },
  { runner: 'jest', line: /^No tests found/gm },
  //   5 passing (12ms)   1 failing
  { runner: 'mocha', line: /^ +(?<n>\d+) (?:passing|failing)\b/gm },
  // # tests 5, or ℹ tests 5; then pass, fail, cancelled, skipped, todo
  { runner: 'node --test', line: /^(?:#|ℹ) (?<what>tests|skipped) (?<n>\d+)\s*$/gm },
  // ==== 1 failed, 2 passed, 1 skipped in 0.12s ====, with -q without the bars
  {
    runner: 'pytest',
    line: /^(?:=+ )?(?<list>\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?)(?:, \d+ \w+)*) in [\d.]+s/gm,
  },
  { runner: 'pytest', line: /^(?:=+ )?no tests (?:ran|collected)\b/gm },
  { runner: 'unittest', line: /^Ran (?<n>\d+) tests? in [\d.]+s/gm },
  // test result: ok. 3 passed; 0 failed; 1 ignored; …
  { runner: 'cargo test', line: /^test result: \w+\. (?<list>\d+ \w+(?:; \d+ \w+)*)/gm },
  // --- PASS: TestX (0.00s), with -v
  { runner: 'go test', line: /^--- (?<one>PASS|FAIL): /gm },
  { runner: 'go test', line: /^(?:\?|ok) +\t\S+\t.*\[no test(?:s to run| files)\]/gm },
  // Tests run: 5, Failures: 0, Errors: 0, Skipped: 1
  {
    runner: 'junit',
    line: /^(?:\[\w+\] +)?Tests run: (?<all>\d+), Failures: \d+, Errors: \d+(?:, Skipped: (?<skipped>\d+))?\s*$/gm,
  },
  { runner: 'rspec', line: /^(?<all>\d+) examples?, \d+ failures?(?:, (?<skipped>\d+) pending)?/gm },
  { runner: 'phpunit', line: /^OK \((?<n>\d+) tests?, |^Tests: (?<m>\d+), Assertions: /gm },
  { runner: 'phpunit', line: /^No tests executed!/gm },
  {
    runner: 'dotnet test',
    line: /^(?:Passed!|Failed!) +- Failed: +\d+, Passed: +\d+, Skipped: +(?<skipped>\d+), Total: +(?<all>\d+)/gm,
  },
  { runner: 'ctest', line: /^\d+% tests passed, \d+ tests failed out of (?<n>\d+)/gm },
  { runner: 'ctest', line: /^No tests were found!!!/gm },
]

const notRun = /^(?:skipped|todo|pending|ignored|deselected|warnings?|measured|filtered|total)$/

/** `1 failed | 2 passed | 1 skipped`, however it is joined: 3. */
const executed = (list: string): number =>
  [...list.matchAll(/(\d+) (\w+)/g)].reduce((sum, [, n, what]) => sum + (notRun.test(what ?? '') ? 0 : Number(n)), 0)

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
const colour = /\u001b\[[\d;]*m/g

/**
 * How many tests a command executed, as far as its output says so in the words of a runner that is known; null where it names
 * none. Several runs in one output are summed. A package of Go that passed without `-v` says that tests ran, and not how many:
 * then it is null as well.
 */
export const testsRun = (output: string): number | null => {
  const text = output.replace(colour, '').replaceAll('\r\n', '\n')
  // go test without -v: a passed package, and no word of how many.
  if (/^(?:ok|FAIL) *\t\S+\t(?!.*\[no tests to run\])/m.test(text) && !/^--- (?:PASS|FAIL): /m.test(text)) return null
  let count: number | null = null
  for (const { line } of summaries)
    for (const { groups = {} } of text.matchAll(line)) {
      const { list, n, m, all, skipped, one, what } = groups
      const found =
        list !== undefined
          ? executed(list)
          : all !== undefined
            ? Number(all) - Number(skipped ?? 0)
            : one !== undefined
              ? 1
              : Number(n ?? m ?? 0) * (what === 'skipped' ? -1 : 1)
      count = (count ?? 0) + found
    }
  return count === null ? null : Math.max(0, count)
}

/** The person says in the command itself that none is fine. */
const mayRunNone = /pass-?with-?no-?tests/i

/** A green command whose runner says that it executed no test proves nothing: why not, or null. */
export const provesNothing = (command: string, tests: number | null): string | null =>
  tests === 0 && !mayRunNone.test(command)
    ? 'it ended green, but its test runner says that no test was executed: that proves nothing'
    : null
