// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are shell texts
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { simpleCommands } from '../../src/sandbox/commands.ts'
import { judge } from '../../src/sandbox/rules.ts'

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
