// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are shell texts
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { simpleCommands } from '../../src/sandbox/commands.ts'
import { judge, narrowRule, obstacle } from '../../src/sandbox/rules.ts'

const rules = (allow: string[], deny: string[] = [], ask: string[] = []) => ({ allow, ask, deny })
const verdict = (command: string, ...args: Parameters<typeof rules>) => judge(command, rules(...args)).verdict

test('an allow rule matches the whole of a command, with * for a word or the rest', () => {
  expect(verdict('npm test', ['npm test'])).toBe('allow')
  expect(verdict('npm test', ['npm *'])).toBe('allow')
  expect(verdict('npm', ['npm *'])).toBe('allow')
  expect(verdict('npm test -- x', ['npm test'])).toBe('unmatched')
  expect(verdict('npm test-all', ['npm test*'])).toBe('allow')
  expect(verdict('npmx', ['npm *'])).toBe('unmatched')
  expect(verdict('git log a', ['git * a'])).toBe('allow')
  expect(verdict('CI=1 npm test', ['npm test'])).toBe('unmatched')
  expect(verdict('CI=1 npm test', ['CI=1 npm test'])).toBe('allow')
  expect(verdict('echo hi; cd src && npm test', ['npm test'])).toBe('allow')
})

test('every part of a command line must be allowed', () => {
  for (const command of [
    'npm test; evil',
    'npm test && evil',
    'npm test | evil',
    'npm test $(evil)',
    'npm test `evil`',
    'npm test <(evil)',
    'npm test & evil',
    'if evil; then npm test; fi',
    'for x in $(evil); do npm test; done',
    'npm() { evil; }; npm test',
    'npm test "${x:-$(evil)}"',
    'npm test <<E\n$(evil)\nE',
    '((x=$(evil))); npm test',
    '[[ -f $(evil) ]] && npm test',
    'x=$(evil) npm test',
    'sh -c "evil"',
    "eval 'evil'",
    "trap 'evil' EXIT; npm test",
    'coproc evil',
    '(evil)',
    '! evil',
    'time evil',
    'case x in x) evil;; esac',
    'PATH=/tmp/evil npm test',
    'export PATH=/tmp/evil; npm test',
    'PATH=/tmp/evil; npm test',
  ])
    expect(verdict(command, ['npm *', 'npm']), command).not.toBe('allow')
})

test('what only a running shell knows is never allowed by a rule, not even by *', () => {
  for (const command of [
    '$x',
    '"$x" y',
    '$(printf rm) x',
    'rm${IFS}x',
    '{rm,x}',
    '~/evil',
    'r? x',
    'echo aGk= | sh',
    'bash <<E\nx\nE',
    'sh -c "$x"',
    'eval "$x"',
    'echo "unterminated',
    'xargs sh -c "$x"',
  ])
    expect(verdict(command, ['*', '* *', 'echo *', 'base64 *', 'xargs *']), command).toBe('opaque')
})

test('allowed output goes below the working folder only', () => {
  expect(verdict('echo x > out.txt 2>&1', [])).toBe('allow')
  expect(verdict('echo x > /dev/null', [])).toBe('allow')
  for (const command of [
    'echo x > /etc/passwd',
    'echo x >> ../y',
    'echo x > ~/.bashrc',
    'echo x > "$y"',
    'echo x >| .git/hooks/y',
    'echo x &> /y',
    '{ echo x; } > /y',
  ])
    expect(verdict(command, ['echo *']), command).not.toBe('allow')
})

test('nor by way of another folder, nor into what a team root holds of its own', () => {
  for (const command of [
    'cd /etc && echo x > passwd',
    'cd .. && echo x > y',
    'cd && echo x > .bashrc',
    'cd - && echo x > y',
    'cd -P ../y; echo x > y',
    'cd -- /y; echo x > y',
    'cd ~; echo x > y',
    'cd "$y"; echo x > y',
    'cd .git/hooks && echo x > pre-commit',
    'cd src; cd ..; cd ..; echo x > y',
    'command cd /y; echo x > y',
    "eval 'cd /y'; echo x > y",
    '(cd /y; echo x > y)',
    'echo "{}" > config.json',
    'echo x >> ./.messages/alice.inbox.jsonl',
    'cd .messages && echo x >> alice.inbox.jsonl',
    'echo x > team/alice/AGENTS.md',
    'echo x > .team/y',
    'echo x > .tasks/y.json',
  ])
    expect(verdict(command, ['command *']), command).not.toBe('allow')
  for (const command of [
    'cd src && echo x > y',
    'cd -P ./src/a; echo x > y; echo y > /dev/null',
    'cd .. && pwd 2>/dev/null',
    'echo x > src/config.json',
  ])
    expect(verdict(command, []), command).toBe('allow')
})

test('G03 a deny rule sees through quoting, paths, carriers and nested shells', () => {
  for (const command of [
    'rm -rf x',
    "r''m -rf x",
    '"rm" -rf x',
    '\\rm -rf x',
    "$'rm' -r -f x",
    '/bin/rm -fr x',
    'rm x -f -r',
    'sudo rm -rf x',
    'env A=1 rm -rf x',
    'find . -exec rm -rf {} +',
    'ls | xargs rm -rf',
    'sh -c "rm -rf x"',
    'bash -ec "sh -c \'rm -rf x\'"',
    'timeout 5 sh -c "rm -rf x"',
    'eval rm -rf x',
    'A=1 rm -rf x',
    'true && (cd y; rm -rf x) &',
    'echo $(rm -rf x)',
  ])
    expect(verdict(command, ['*'], ['rm -rf']), command).toBe('deny')
  for (const command of ['rm x', 'git rm -r x', 'echo rm', 'rm -r x'])
    expect(verdict(command, [], ['rm -rf']), command).not.toBe('deny')
  for (const command of ['rm${IFS}-rf${IFS}x', '$(printf rm) -rf x', 'echo cm0gLXJmIHg= | base64 -d | sh'])
    expect(verdict(command, ['*'], ['rm -rf']), command).toBe('opaque')
})

test('deny goes before ask, ask before allow, and the rule that decided is named', () => {
  expect(judge('git push', rules(['git *'], ['git push'], ['git *']))).toMatchObject({
    verdict: 'deny',
    rule: 'git push',
  })
  expect(judge('git push -f', rules(['git *'], [], ['git push']))).toMatchObject({
    verdict: 'ask',
    rule: 'git push',
    what: 'git push -f',
  })
})

test('no text makes the reader throw, and a word between quotes is never a command of its own', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...'a $(){}"\'`|&;<>\n\\#[]=-*'.split('')), maxLength: 40 }),
      text => {
        judge(text, rules(['*']))
        const quoted = simpleCommands(`echo '${text.replaceAll("'", '')}'`)
        expect(quoted.ok && quoted.commands.length).toBe(1)
      },
    ),
    { numRuns: 500 },
  )
})

test('the rule proposed for a command is its exact words, and none where no rule would be narrow', () => {
  const propose = (command: string, ...args: Parameters<typeof rules>) =>
    narrowRule(command, rules(...args))?.rule ?? null
  expect(propose('npm publish --tag next', [])).toBe('npm publish --tag next')
  expect(propose('echo hi && npm  publish', [])).toBe('npm publish')
  expect(propose('npm test && npm publish', ['npm test'])).toBe('npm publish')
  expect(propose('npm publish; npm publish', [])).toBe('npm publish')
  expect(propose('CI=1 npm publish > log.txt 2>&1', [])).toBe('CI=1 npm publish')
  expect(propose("sh -c 'npm publish'", [])).toBe('npm publish')
  expect(propose('git push origin main', ['git *'], [], ['git push'])).toBe('git push origin main')
  expect(propose('sudo rm -r -f x', [], [], ['rm -rf'])).toBe('sudo rm -r -f x')
  for (const command of [
    // more than one is in the way
    'npm ci && npm publish',
    'npm publish --dry-run; npm publish',
    // words that read otherwise in a rule, or that a shell makes others of
    'rm *',
    'rm "*"',
    'rm [ab]',
    'rm a?',
    'rm {a,b}',
    'cat ~/x',
    'cat "$HOME"',
    "grep 'two words' x",
    "printf ''",
    'touch é',
    // input that no rule sees
    'echo "process.exit()" | node',
    'node < script.js',
    'sh <<< "npm publish"',
    // output outside
    'npm publish > /etc/motd',
    // unreadable
    'eval "$x"',
    'npm publish $(cat x)',
    'if',
  ])
    expect(propose(command, []), command).toBeNull()
  expect(propose('npm ci && git push', [], [], ['git push']), 'one asked for, one that nothing allows').toBeNull()
})

test('a given rule lets through its words alone, past what it was given for, and never past deny', () => {
  const given = [{ rule: 'git push origin main', past: ['git push'] }]
  const may = (command: string, permissions = rules(['git *'], [], ['git push']), sandboxed = false) =>
    obstacle(command, permissions, sandboxed, given) === null
  expect(may('git push origin main')).toBe(true)
  expect(may("git push  'origin' main")).toBe(true)
  expect(may('git status && git push origin main')).toBe(true)
  for (const command of [
    'git push origin main --force',
    'git push origin',
    'git push origin other',
    'git push -f origin main',
    'X=1 git push origin main',
    'git push origin main; git push',
    'sudo git push origin main',
    'echo x | git push origin main',
    'git push origin "$branch"',
    'git push origin main > /etc/motd',
  ])
    expect(may(command), command).toBe(false)
  // A configuration that changed wins: deny, and whatever asks that did not when the rule was given.
  expect(may('git push origin main', rules(['git *'], ['git push'], ['git push']))).toBe(false)
  expect(may('git push origin main', rules(['git *'], [], ['git push', 'git push origin']))).toBe(false)
  // In the sandbox, where everything runs that is not asked for, it holds for a line that is allowed in all else.
  expect(may('git push origin main', rules([], [], ['git push']), true)).toBe(true)
  expect(may('export GIT_SSH_COMMAND=./x; git push origin main', rules([], [], ['git push']), true)).toBe(false)
  expect(may('./x; git push origin main', rules([], [], ['git push']), true)).toBe(false)
})

test('whatever rule is proposed lets its command through, and no command with a word more, less or another', () => {
  const word = fc.stringMatching(/^[a-z*?$'"{}~=;|<>& -]{1,6}$/)
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 4 }), word, (words, other) => {
      const none = rules([])
      const given = narrowRule(words.join(' '), none)
      if (!given) return
      expect(obstacle(words.join(' '), none, false, [given])).toBeNull()
      expect(given.rule).not.toMatch(/[*?$'"{}~;|<>&]/)
      for (const changed of [`${given.rule} ${other}`, `${other} ${given.rule}`]) {
        if (narrowRule(changed, none)?.rule === given.rule || other.trim() === '') continue
        // Only what is harmless, or the same again, may stand beside it.
        const left = obstacle(changed, none, false, [given])
        if (left === null) expect(obstacle(changed.replaceAll(given.rule, 'true'), none, false)).toBeNull()
      }
    }),
    { numRuns: 500 },
  )
})

test('what the shell evaluates a second time is not taken for words that change nothing', () => {
  const folder = mkdtempSync(join(tmpdir(), 'team-rules-'))
  const evil = "'a[$(touch made)]'"
  const commands = [
    `for x in ${evil}; do echo $((x)); done`,
    `for x in ${evil}; do echo "$((x + 1))"; done`,
    `for x in ${evil}; do cat <<E\n$((x))\nE\ndone`,
    `for x in ${evil}; do ((x)); done`,
    `for x in ${evil}; do for ((; x; )); do break; done; done`,
    `for x in ${evil}; do echo $[x]; done`,
    `for x in ${evil}; do echo "\${!x}"; done`,
    `for x in ${evil}; do echo "\${b[x]}"; done`,
    `for x in ${evil}; do [[ $x -eq 0 ]]; done`,
    `for x in b; do for b in ${evil}; do echo $((x)); done; done`,
    `for x in ${evil}; do eval 'echo $((x))'; done`,
    `for x in ${evil}; do trap 'echo $((x))' EXIT; done`,
    `for x in '-v a[$(touch\${IFS}made)] -o y'; do [ $x = y ]; done`,
    `for x in -v; do test "$x" ${evil}; done`,
    `for x in -v; do test $x ${evil}; done`,
    `echo \${x:=${evil}} $((x))`,
    `: \${x:='$(touch made)'}; echo "\${x@P}"`,
    `test -v ${evil}`,
    `test ! -v ${evil}`,
    `[ x = y -o -v ${evil} ]`,
    `[[ -v ${evil} ]]`,
    `[[ 0 -lt ${evil} ]]`,
    `f() { echo $(($1)); }; f ${evil}`,
    `echo $(( $(echo ${evil}) ))`,
    `echo x >${evil.replace('made', 'other')}; for x in *; do [ "$x" -eq 0 ]; echo $((x)); done; cat a*`,
    `printf -v ${evil} x`,
    `declare -i x=${evil}`,
    `let ${evil}`,
    `compgen -W '$(touch made)'`,
  ]
  try {
    for (const command of commands) {
      expect(verdict(command, ['cat *', 'cat']), command).not.toBe('allow')
      // Beside rules that must see what is run, in a sandbox too.
      expect(obstacle(command, rules([], ['touch']), true), command).not.toBeNull()
      const at = mkdtempSync(join(folder, 'x-'))
      spawnSync('bash', ['-c', command], { cwd: at, stdio: 'ignore' })
      expect(readdirSync(at).length, `${command} runs something`).toBeGreaterThan(0)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
  // What the shell sets by itself can change what commands run as much as an assignment.
  for (const command of [
    'for PATH in /tmp/evil; do npm test; done',
    'select PATH in /tmp/evil; do npm test; done',
    ': ${PATH:=/tmp/evil}; npm test',
    'for ((PATH = 1; ; )); do npm test; done',
    'npm test {PATH}> x',
    'coproc PATH { npm test; }',
  ])
    expect(verdict(command, ['npm *']), command).not.toBe('allow')
})

test('numbers, and variables that hold nothing else, are no such thing', () => {
  for (const command of [
    'for i in 1 2 3; do echo $((i * 2)); done',
    'for i in {1..10}; do [ $i -lt 2 ] && npm test; done',
    'for ((i = 0; i < 3; i++)); do npm test; done',
    'for f in *.md; do echo "$f"; npm test; done',
    'npm test; [ $? -eq 0 ] && echo ok',
    '[[ $? -ne 0 ]] || echo ok',
    '[ -f "$x" ] && [ ! -d y ] && test -n "$x" -a -f "$y"',
    '[ -z "$(npm test)" ] && [[ $x == y* && -v x ]]',
    'for x in a b; do [ "$x" -gt "$y" ]; done',
    'echo ${a[0]} "${a[@]}" ${x:0:3} ${#a[@]} ${x%.md} ${x/a/b} ${x:-y} ${!p*}',
    'echo $((1 + 0x1f)) $[2]',
    '(( i++ )); echo $i',
  ])
    expect(verdict(command, ['npm *']), command).toBe('allow')
})
